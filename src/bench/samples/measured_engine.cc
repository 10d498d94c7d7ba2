#include "bench/samples/measured_engine.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/concurrency/mutex.h"

namespace millrace::bench {
namespace {

class CountedReader final : public io::Reader {
 public:
  CountedReader(std::unique_ptr<io::Reader> reader, std::shared_ptr<ReadCounts> counts)
      : reader_(std::move(reader)), counts_(std::move(counts)) {}

  Result<uint64_t> size_bytes() const override { return reader_->size_bytes(); }

  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    ASSIGN_OR_RETURN(const size_t read, reader_->read_at(offset_bytes, out));
    counts_->add(read);
    return read;
  }

  std::optional<ByteView> view(uint64_t offset_bytes, uint64_t size_bytes) const override {
    const auto found = reader_->view(offset_bytes, size_bytes);
    if (found) counts_->add(size_bytes);
    return found;
  }

  const io::Reader& inner() const { return *reader_; }

 private:
  std::unique_ptr<io::Reader> reader_;
  std::shared_ptr<ReadCounts> counts_;
};

// Reads in pieces. Those of a whole file, and all with `keeps_last`, begin at multiples of their
// length.
class PiecesReader final : public io::Reader {
 public:
  PiecesReader(std::unique_ptr<io::Reader> reader, PieceOptions options,
               std::shared_ptr<ReadCounts> counts)
      : reader_(std::move(reader), std::move(counts)), options_(options) {}

  Result<uint64_t> size_bytes() const override { return reader_.size_bytes(); }

  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    return options_.keeps_last ? read_through(offset_bytes, out) : read_pieces(offset_bytes, out);
  }

 private:
  Result<size_t> read_pieces(uint64_t offset_bytes, MutableByteView out) const {
    size_t done = 0;
    while (done < out.size()) {
      const size_t size = std::min<size_t>(piece_at(done), out.size() - done);
      ASSIGN_OR_RETURN(const size_t read,
                       reader_.read_at(offset_bytes + done, out.subspan(done, size)));
      done += read;
      if (read < size) break;
    }
    if (options_.reads_end) RETURN_IF_ERROR(read_end(offset_bytes + done));
    return done;
  }

  uint64_t piece_at(size_t done) const {
    if (done == 0 && options_.first_bytes > 0) return options_.first_bytes;
    return options_.piece_bytes - done % options_.piece_bytes;
  }

  Status read_end(uint64_t offset_bytes) const {
    std::byte room;
    const auto read = reader_.read_at(offset_bytes, MutableByteView(&room, 1));
    return read.ok() ? Status() : Status(read.error());
  }

  Result<size_t> read_through(uint64_t offset_bytes, MutableByteView out) const {
    const MutexLock lock(mutex_);
    size_t done = 0;
    while (done < out.size()) {
      const uint64_t at = offset_bytes + done;
      if (at < kept_begin_ || at >= kept_begin_ + kept_bytes_) {
        RETURN_IF_ERROR(keep(at / options_.piece_bytes * options_.piece_bytes));
        if (at >= kept_begin_ + kept_bytes_) break;  // the file ends
      }
      const size_t from = at - kept_begin_;
      const size_t size = std::min(kept_bytes_ - from, out.size() - done);
      std::memcpy(out.data() + done, kept_.data() + from, size);
      done += size;
    }
    return done;
  }

  Status keep(uint64_t begin) const REQUIRES(mutex_) {
    kept_.resize(options_.piece_bytes);
    kept_bytes_ = 0;
    ASSIGN_OR_RETURN(kept_bytes_, reader_.read_at(begin, kept_));
    kept_begin_ = begin;
    return {};
  }

  CountedReader reader_;
  PieceOptions options_;
  mutable Mutex mutex_;
  mutable std::vector<std::byte> kept_ GUARDED_BY(mutex_);
  mutable uint64_t kept_begin_ GUARDED_BY(mutex_) = 0;
  mutable size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
};

// The queue of the engine below. Reads in flight are not split, so all readers are CountedReaders.
class CountedQueue final : public io::ReadQueue {
 public:
  CountedQueue(std::unique_ptr<io::ReadQueue> queue, std::shared_ptr<ReadCounts> counts)
      : queue_(std::move(queue)), counts_(std::move(counts)) {}

  size_t capacity() const override { return queue_->capacity(); }
  size_t in_flight() const override { return queue_->in_flight(); }

  Status submit(const io::ReadRequest& request) override {
    io::ReadRequest inner = request;
    inner.reader = &static_cast<const CountedReader*>(request.reader)->inner();
    return queue_->submit(inner);
  }
  Status submit_whole(io::WholeFileRequest request) override {
    return queue_->submit_whole(std::move(request));
  }
  void use_memory(MutableByteView memory) override { queue_->use_memory(memory); }

  Status wait(std::vector<io::ReadDone>& done) override {
    const size_t before = done.size();
    RETURN_IF_ERROR(queue_->wait(done));
    for (size_t i = before; i < done.size(); ++i) {
      if (done[i].bytes_read.ok()) counts_->add(*done[i].bytes_read);
    }
    return {};
  }

 private:
  std::unique_ptr<io::ReadQueue> queue_;
  std::shared_ptr<ReadCounts> counts_;
};

}  // namespace

MeasuredEngine::MeasuredEngine(std::shared_ptr<io::Engine> engine, PieceOptions pieces,
                               std::shared_ptr<ReadCounts> counts)
    : engine_(std::move(engine)), pieces_(pieces), counts_(std::move(counts)) {}

io::EngineWays MeasuredEngine::ways() const {
  io::EngineWays ways = engine_->ways();
  if (pieces_.piece_bytes == 0) return ways;
  return {.one_at_a_time = ways.one_at_a_time};
}

Result<std::unique_ptr<io::Reader>> MeasuredEngine::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(auto reader, engine_->open(path));
  if (pieces_.piece_bytes == 0) {
    return std::unique_ptr<io::Reader>(std::make_unique<CountedReader>(std::move(reader), counts_));
  }
  return std::unique_ptr<io::Reader>(
      std::make_unique<PiecesReader>(std::move(reader), pieces_, counts_));
}

Result<std::unique_ptr<io::ReadQueue>> MeasuredEngine::open_queue(size_t capacity) {
  if (pieces_.piece_bytes != 0) {
    return fail(Errc::kUnsupported, "reads in pieces are made one at a time");
  }
  ASSIGN_OR_RETURN(auto queue, engine_->open_queue(capacity));
  return std::unique_ptr<io::ReadQueue>(std::make_unique<CountedQueue>(std::move(queue), counts_));
}

Result<size_t> MeasuredEngine::read_whole(const std::filesystem::path& path, MutableByteView out) {
  if (pieces_.piece_bytes == 0) {
    ASSIGN_OR_RETURN(const size_t read, engine_->read_whole(path, out));
    counts_->add(read);
    return read;
  }
  ASSIGN_OR_RETURN(const auto reader, open(path));
  ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
  if (size > out.size()) {
    return fail(Errc::kExhausted, "{}: the file has {} bytes, and there is room for {}",
                path.string(), size, out.size());
  }
  return reader->read_at(0, out.first(size));
}

}  // namespace millrace::bench
