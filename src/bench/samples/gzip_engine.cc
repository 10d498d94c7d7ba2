#include "bench/samples/gzip_engine.h"

#include <cstring>
#include <string>

#include "base/bytes.h"
#include "base/io/gzip.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::bench {
namespace {

constexpr size_t kStepBytes = 1024 * 1024;

// What one file takes of the memory that all open files may have.
class Holding {
 public:
  Holding(std::shared_ptr<std::atomic<uint64_t>> held, uint64_t max_bytes)
      : held_(std::move(held)), max_bytes_(max_bytes) {}
  Holding(Holding&&) = default;
  ~Holding() {
    if (held_) held_->fetch_sub(bytes_);
  }

  Status add(uint64_t size_bytes) {
    bytes_ += size_bytes;
    if (held_->fetch_add(size_bytes) + size_bytes <= max_bytes_) return {};
    return fail(Errc::kExhausted,
                "the inflated files do not fit into {}; use fewer or smaller files, fewer "
                "reader.read_threads, or set dataset.compression to none",
                format_bytes(max_bytes_));
  }

 private:
  std::shared_ptr<std::atomic<uint64_t>> held_;
  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
};

// An inflated file.
class InflatedReader final : public io::Reader {
 public:
  InflatedReader(std::string bytes, Holding holding)
      : bytes_(std::move(bytes)), holding_(std::move(holding)) {}

  Result<uint64_t> size_bytes() const override { return bytes_.size(); }
  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    if (offset_bytes >= bytes_.size()) return size_t{0};
    const auto part =
        std::string_view(bytes_).substr(static_cast<size_t>(offset_bytes), out.size());
    std::memcpy(out.data(), part.data(), part.size());
    return part.size();
  }
  std::optional<ByteView> view(uint64_t offset_bytes, uint64_t size_bytes) const override {
    if (offset_bytes > bytes_.size() || size_bytes > bytes_.size() - offset_bytes) return {};
    return bytes_of(std::string_view(bytes_).substr(static_cast<size_t>(offset_bytes),
                                                    static_cast<size_t>(size_bytes)));
  }

 private:
  std::string bytes_;
  Holding holding_;
};

// Appends to `out` what the input inflates to.
Status inflate_piece(GzipReader& gzip, ByteView input, Holding& holding, std::string& out) {
  while (true) {
    const size_t before = out.size();
    out.resize(before + kStepBytes);
    ASSIGN_OR_RETURN(const GzipReader::Step step,
                     gzip.inflate(input, std::as_writable_bytes(std::span(out)).subspan(before)));
    out.resize(before + step.made);
    RETURN_IF_ERROR(holding.add(step.made));
    input = input.subspan(step.taken);
    if (input.empty() && step.made < kStepBytes) return {};
    if (step.taken == 0 && step.made == 0) {
      return fail(Errc::kCorrupt, "the compressed data does not continue");
    }
  }
}

Result<std::string> inflate_all(const io::Reader& reader, Holding& holding) {
  ASSIGN_OR_RETURN(const auto gzip, GzipReader::create());
  std::string packed(kStepBytes, '\0');
  std::string out;
  for (uint64_t at = 0;;) {
    ASSIGN_OR_RETURN(const size_t read,
                     reader.read_at(at, std::as_writable_bytes(std::span(packed))));
    RETURN_IF_ERROR(inflate_piece(*gzip, bytes_of(packed).first(read), holding, out));
    at += read;
    if (read < packed.size()) break;
  }
  if (!gzip->between_members()) {
    return fail(Errc::kCorrupt, "the compressed data ends early: the file was cut short");
  }
  return out;
}

class DeflatingWriter final : public io::Writer {
 public:
  DeflatingWriter(std::unique_ptr<io::Writer> writer, std::unique_ptr<GzipWriter> gzip)
      : writer_(std::move(writer)), gzip_(std::move(gzip)) {}

  Status write_at(uint64_t offset_bytes, ByteView bytes) override {
    if (offset_bytes != taken_bytes_) {
      return fail(Errc::kUnsupported,
                  "a compressed file is written from start to end, but byte {} "
                  "follows byte {}",
                  offset_bytes, taken_bytes_);
    }
    taken_bytes_ += bytes.size();
    std::string packed;
    RETURN_IF_ERROR(gzip_->append(text_of(bytes), packed));
    return put(packed);
  }
  Status sync() override { return writer_->sync(); }
  Status close() override {
    std::string packed;
    RETURN_IF_ERROR(gzip_->finish(packed));
    RETURN_IF_ERROR(put(packed));
    return writer_->close();
  }

 private:
  Status put(std::string_view packed) {
    RETURN_IF_ERROR(writer_->write_at(packed_bytes_, bytes_of(packed)));
    packed_bytes_ += packed.size();
    return {};
  }

  std::unique_ptr<io::Writer> writer_;
  std::unique_ptr<GzipWriter> gzip_;
  uint64_t taken_bytes_ = 0;
  uint64_t packed_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<io::Reader>> GzipEngine::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const auto reader, engine_->open(path));
  Holding holding(held_bytes_, held_max_bytes_);
  ASSIGN_OR_RETURN(std::string bytes,
                   inflate_all(*reader, holding).within(printable(path.string())));
  bytes.shrink_to_fit();
  return std::unique_ptr<io::Reader>(
      std::make_unique<InflatedReader>(std::move(bytes), std::move(holding)));
}

Result<std::unique_ptr<io::Writer>> GzipEngine::create(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(auto gzip, GzipWriter::create(level_));
  ASSIGN_OR_RETURN(auto writer, engine_->create(path));
  return std::unique_ptr<io::Writer>(
      std::make_unique<DeflatingWriter>(std::move(writer), std::move(gzip)));
}

Result<std::unique_ptr<io::ReadQueue>> GzipEngine::open_queue(size_t) {
  return fail(Errc::kUnsupported, "compressed files are read one at a time");
}

Result<size_t> GzipEngine::read_whole(const std::filesystem::path& path, MutableByteView out) {
  ASSIGN_OR_RETURN(const auto reader, open(path));
  ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
  if (size <= out.size()) return reader->read_at(0, out);
  return fail(Errc::kExhausted, "{}: the file has {} bytes, and there is room for {}",
              path.string(), size, out.size());
}

}  // namespace millrace::bench
