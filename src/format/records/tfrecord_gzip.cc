// tfrecord_gzip: TFRecord files that are compressed with gzip as a whole.
//
// A record of such a file cannot be read alone. The source inflates each file once to find its
// records, and keeps inflated files in bounded memory: the least recently used one goes first. A
// sample of a file that is not kept inflates all of it again, so shuffle files rather than samples,
// or convert the files, if they do not fit.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/io/gzip.h"
#include "base/system/cpus.h"
#include "format/appender.h"
#include "format/file_pieces.h"
#include "format/file_stamp.h"
#include "format/formats.h"
#include "format/records/tfrecord.h"

namespace millrace::format {
namespace {

using data::SampleId;

// Bytes in memory as a file.
class MemoryReader final : public io::Reader {
 public:
  explicit MemoryReader(ByteView bytes) : bytes_(bytes) {}

  Result<uint64_t> size_bytes() const override { return bytes_.size(); }
  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    if (offset_bytes >= bytes_.size()) return size_t{0};
    const size_t offset = static_cast<size_t>(offset_bytes);
    const size_t size = std::min(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, size);
    return size;
  }

 private:
  ByteView bytes_;
};

// Inflates piece by piece into a growing string of at most `bytes_max`.
class Inflation {
 public:
  static Result<Inflation> start(uint64_t bytes_max) {
    ASSIGN_OR_RETURN(auto reader, GzipReader::create());
    return Inflation(std::move(reader), bytes_max);
  }

  Status add(std::string_view piece) {
    ByteView input = bytes_of(piece);
    while (true) {
      if (bytes_.size() - size_ < kGrowthBytes / 2) bytes_.resize(bytes_.size() + growth());
      ASSIGN_OR_RETURN(
          const GzipReader::Step step,
          reader_->inflate(input, std::as_writable_bytes(std::span(bytes_)).subspan(size_)));
      size_ += step.made;
      if (size_ > bytes_max_) {
        return fail(Errc::kExhausted,
                    "it inflates to more than {} bytes, the memory for inflated files; raise "
                    "inflated_bytes_max or decompress the file",
                    bytes_max_);
      }
      input = input.subspan(step.taken);
      if (input.empty() && size_ < bytes_.size()) return {};
      if (step.taken == 0 && step.made == 0) {
        return fail(Errc::kCorrupt, "the compressed data does not continue");
      }
    }
  }

  Result<std::string> finish() && {
    if (!reader_->between_members()) {
      return fail(Errc::kCorrupt, "the compressed data ends early: the file was cut short");
    }
    bytes_.resize(size_);
    bytes_.shrink_to_fit();
    return std::move(bytes_);
  }

 private:
  static constexpr size_t kGrowthBytes = 1024 * 1024;

  Inflation(std::unique_ptr<GzipReader> reader, uint64_t bytes_max)
      : reader_(std::move(reader)), bytes_max_(bytes_max) {}

  // Half of what is there, so that a long file is not copied too often.
  size_t growth() const { return std::max(kGrowthBytes, bytes_.size() / 2); }

  std::unique_ptr<GzipReader> reader_;
  uint64_t bytes_max_;
  std::string bytes_;
  size_t size_ = 0;  // of `bytes_`, what is inflated
};

Result<std::string> inflate_file(io::Engine& engine, const std::string& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const auto reader, engine.open(path));
  ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
  ASSIGN_OR_RETURN(Inflation inflation, Inflation::start(bytes_max));
  RETURN_IF_ERROR(
      for_each_piece(*reader, size, [&](std::string_view piece) { return inflation.add(piece); }));
  return std::move(inflation).finish();
}

Error named(const std::string& path, Error error) {
  if (error.message().starts_with(path)) return error;
  return std::move(error).within(path);
}

class GzipTfrecordSource final : public data::SampleSource {
 public:
  GzipTfrecordSource(std::shared_ptr<io::Engine> engine, const std::vector<std::string>& paths,
                     const FormatOptions& options)
      : engine_(std::move(engine)),
        bytes_max_(options.inflated_bytes_max),
        keeps_indexed_(options.keeps_indexed_files),
        files_(paths.size()) {
    for (size_t i = 0; i < paths.size(); ++i) files_[i].path = paths[i];
  }

  // Finds the records of all files.
  Status find_records(size_t thread_count) {
    const size_t threads = thread_count != 0 ? thread_count : usable_cpu_count();
    ThreadPool pool(std::clamp<size_t>(files_.size(), 1, threads));
    RETURN_IF_ERROR(pool.parallel_for(files_.size(), [&](size_t i) -> Status {
      File& file = files_[i];
      file.modified_ns = modified_ns(file.path);
      auto found = inflate_file(*engine_, file.path, bytes_max_);
      if (!found.ok()) return named(file.path, std::move(found).error());
      auto samples = index_tfrecords(MemoryReader(bytes_of(*found)));
      if (!samples.ok()) return named(file.path, std::move(samples).error());
      file.records = std::move(samples->spans);
      if (keeps_indexed_) keep_if_room(file, *std::move(found));
      return {};
    }));
    for (const File& file : files_) begins_.push_back(begins_.back() + file.records.size());
    return {};
  }

  uint64_t sample_count() const override { return begins_.back(); }

  std::string name(SampleId sample) const override {
    const auto [file, record] = place_of(sample);
    return fmt::format("{}: record {}", file.path, record);
  }

  std::optional<int64_t> label(SampleId) const override { return std::nullopt; }

  Result<ByteView> read(SampleId sample, data::Buffer& room) const override {
    const auto [file, record] = place_of(sample);
    const MutableByteView out = room.room(static_cast<size_t>(file.records[record].size_bytes));
    RETURN_IF_ERROR(read_into(sample, out));
    return ByteView(out);
  }

  Result<size_t> read_into(SampleId sample, MutableByteView out) const override {
    const auto [file, record] = place_of(sample);
    const data::Span span = file.records[record];
    if (span.size_bytes > out.size()) {
      return fail(Errc::kExhausted, "{}: has {} bytes, but there is room for {}", name(sample),
                  span.size_bytes, out.size());
    }
    ASSIGN_OR_RETURN(const auto bytes, inflated(file));
    std::memcpy(out.data(), bytes->data() + span.offset_bytes,
                static_cast<size_t>(span.size_bytes));
    return static_cast<size_t>(span.size_bytes);
  }

  uint64_t group_count() const override { return files_.size(); }
  SampleId group_begin(uint64_t group) const override { return SampleId{begins_[group]}; }
  std::string group_path(uint64_t group) const override { return files_[group].path; }

 private:
  using Inflated = std::shared_ptr<const std::string>;  // shared with reads in flight

  struct File {
    std::string path;
    std::vector<data::Span> records;  // in the inflated bytes
    int64_t modified_ns = 0;
    mutable Mutex inflating;  // one thread inflates, others wait for it
    // Guarded by mutex_.
    mutable Inflated bytes;
    mutable uint64_t last_use = 0;
  };

  std::pair<const File&, size_t> place_of(SampleId sample) const {
    const auto number = static_cast<uint64_t>(sample);
    const auto after = std::ranges::upper_bound(begins_, number);
    const size_t file = static_cast<size_t>(after - begins_.begin()) - 1;
    return {files_[file], static_cast<size_t>(number - begins_[file])};
  }

  Inflated kept(const File& file) const {
    const MutexLock lock(mutex_);
    file.last_use = ++uses_;
    return file.bytes;
  }

  Result<Inflated> inflated(const File& file) const {
    if (Inflated bytes = kept(file)) return bytes;
    const MutexLock lock(file.inflating);
    if (Inflated bytes = kept(file)) return bytes;
    auto found = inflate_file(*engine_, file.path, bytes_max_);
    if (!found.ok()) return named(file.path, std::move(found).error());
    const uint64_t wanted = file.records.empty()
                                ? 0
                                : file.records.back().offset_bytes + file.records.back().size_bytes;
    if (found->size() != wanted || modified_ns(file.path) != file.modified_ns) {
      return fail(Errc::kIo,
                  "{}: was written to or replaced; it has changed since the dataset was opened: "
                  "open it again",
                  file.path);
    }
    return keep(file, *std::move(found));
  }

  void keep_if_room(const File& file, std::string bytes) const {
    const MutexLock lock(mutex_);
    if (kept_bytes_ + bytes.size() > bytes_max_) return;
    kept_bytes_ += bytes.size();
    file.bytes = std::make_shared<const std::string>(std::move(bytes));
  }

  // Makes room by dropping others.
  Inflated keep(const File& file, std::string bytes) const {
    const MutexLock lock(mutex_);
    while (kept_bytes_ > 0 && kept_bytes_ + bytes.size() > bytes_max_) {
      const File* oldest = nullptr;
      for (const File& each : files_) {
        if (each.bytes && (oldest == nullptr || each.last_use < oldest->last_use)) oldest = &each;
      }
      kept_bytes_ -= oldest->bytes->size();
      oldest->bytes = nullptr;
    }
    kept_bytes_ += bytes.size();
    file.bytes = std::make_shared<const std::string>(std::move(bytes));
    return file.bytes;
  }

  std::shared_ptr<io::Engine> engine_;  // shared with the caller
  uint64_t bytes_max_;
  bool keeps_indexed_;
  std::vector<File> files_;
  std::vector<uint64_t> begins_ = {0};  // the first sample of each file, and one past the last
  mutable Mutex mutex_;
  mutable uint64_t kept_bytes_ GUARDED_BY(mutex_) = 0;
  mutable uint64_t uses_ GUARDED_BY(mutex_) = 0;
};

class GzipTfrecordWriter final : public SampleWriter {
 public:
  GzipTfrecordWriter(std::unique_ptr<io::Writer> writer, std::unique_ptr<GzipWriter> gzip)
      : out_(std::move(writer)), gzip_(std::move(gzip)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    static_cast<void>(key);
    ASSIGN_OR_RETURN(const std::string example, make_example(fields));
    packed_.clear();
    RETURN_IF_ERROR(gzip_->append(frame_tfrecord(bytes_of(example)), packed_));
    return out_.append(packed_);
  }

  Status finish() override {
    packed_.clear();
    RETURN_IF_ERROR(gzip_->finish(packed_));
    RETURN_IF_ERROR(out_.append(packed_));
    return out_.close();
  }

 private:
  Appender out_;
  std::unique_ptr<GzipWriter> gzip_;
  std::string packed_;
};

class GzipTfrecord final : public Format {
 public:
  explicit GzipTfrecord(const FormatOptions& options) : options_(options) {}

  std::string_view name() const override { return "tfrecord_gzip"; }
  bool is_file_a_sample() const override { return false; }
  bool has_own_source() const override { return true; }

  Result<data::FileSamples> index(io::Engine&, const std::filesystem::path&) const override {
    return fail(Errc::kUnsupported,
                "single records of a compressed file have no place in it; use open_samples()");
  }

  Result<std::shared_ptr<data::SampleSource>> open(std::shared_ptr<io::Engine> engine,
                                                   const std::vector<std::string>& paths,
                                                   size_t thread_count) const override {
    auto source = std::make_shared<GzipTfrecordSource>(std::move(engine), paths, options_);
    RETURN_IF_ERROR(source->find_records(thread_count));
    return std::shared_ptr<data::SampleSource>(std::move(source));
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    ASSIGN_OR_RETURN(const ByteView payload, unframe_tfrecord(sample));
    return parse_example(payload, fields);
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    constexpr int kLevel = 6;  // as TensorFlow
    ASSIGN_OR_RETURN(auto gzip, GzipWriter::create(kLevel));
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    return std::unique_ptr<SampleWriter>(
        new GzipTfrecordWriter(std::move(writer), std::move(gzip)));
  }

 private:
  FormatOptions options_;
};

}  // namespace

std::unique_ptr<Format> make_tfrecord_gzip(const FormatOptions& options) {
  return std::make_unique<GzipTfrecord>(options);
}

}  // namespace millrace::format
