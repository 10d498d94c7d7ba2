#include "bench/samples/samples.h"

#include <millrace/trace.h>

#include <algorithm>
#include <numeric>

#include "bench/generate/dataset_format.h"
#include "bench/generate/manifest.h"
#include "bench/samples/gzip_engine.h"
#include "bench/samples/sample_decoder.h"
#include "format/file_source.h"

namespace millrace::bench {
namespace {

using data::FileSamples;

// Samples of files whose samples cannot be read one by one, such as npz with several samples. DLIO
// stores them with the sample as the last axis, so a reader must read the whole file for each
// sample, as numpy does. A sample here is the file that holds it.
class SlicesSource final : public data::SampleSource {
 public:
  // `files` has one sample for each file. It is shared with the caller.
  SlicesSource(std::shared_ptr<const data::SampleSource> files, uint64_t samples_per_file)
      : files_(std::move(files)), samples_per_file_(samples_per_file) {}

  uint64_t sample_count() const override { return files_->sample_count() * samples_per_file_; }
  std::string name(data::SampleId sample) const override {
    return fmt::format("{}: sample {}", files_->name(file_of(sample)),
                       data::index_of(sample) % samples_per_file_);
  }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return files_->label(file_of(sample));
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override {
    return files_->read(file_of(sample), room);
  }
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override {
    return files_->read_into(file_of(sample), out);
  }
  uint64_t group_count() const override { return files_->sample_count(); }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{group * samples_per_file_};
  }

 private:
  data::SampleId file_of(data::SampleId sample) const {
    return data::SampleId{data::index_of(sample) / samples_per_file_};
  }

  std::shared_ptr<const data::SampleSource> files_;
  uint64_t samples_per_file_;
};

constexpr uint64_t kTensorflowPieceBytes = 256 * 1024;

// Pillow reads 64 KiB at a time, through a buffer that Python filled with 4 KiB of the header.
constexpr PieceOptions kPillow{.piece_bytes = 64 * 1024, .first_bytes = 4096, .reads_end = true};

PieceOptions pieces_of(const Workload& workload) {
  const ReaderConfig& reader = workload.reader;
  PieceOptions pieces{.piece_bytes = reader.transfer_size};
  if (reader.data_loader == DataLoader::kTensorflow) {
    pieces.keeps_last = true;
    if (pieces.piece_bytes == 0) pieces.piece_bytes = kTensorflowPieceBytes;
  }
  const bool reads_images =
      reader.data_loader == DataLoader::kPytorch && workload.dataset.traits().is_image;
  if (reads_images && pieces.piece_bytes == 0 && !reader.odirect) return kPillow;
  return pieces;
}

// PyTorch's datasets read with plain calls, DALI maps files, and tf.data reads through a buffer.
Result<std::shared_ptr<io::Engine>> engine_of(const Workload& workload,
                                              std::shared_ptr<ReadCounts> counts) {
  const ReaderConfig& reader = workload.reader;
  // A trace has no single reads of io_uring.
  const bool is_native = reader.data_loader == DataLoader::kNative;
  std::string_view name = is_native && millrace_traced() == 0 ? "auto" : "posix";
  if (reader.data_loader == DataLoader::kDali) name = "mapped";
  if (reader.odirect) name = "direct";
  ASSIGN_OR_RETURN(std::shared_ptr<io::Engine> engine, io::open_engine(name));
  return std::shared_ptr<io::Engine>(
      std::make_shared<MeasuredEngine>(std::move(engine), pieces_of(workload), std::move(counts)));
}

// Whether a file has nothing but one sample, so that it need not be indexed. Text may have a
// header, and ends with a newline.
bool is_whole_file(const DatasetConfig& dataset, const format::Format* format) {
  if (format == nullptr || format->is_file_a_sample()) return true;
  return dataset.num_samples_per_file == 1 && dataset.traits().is_whole_if_single &&
         dataset.compression == Compression::kNone;
}

// Fails if the file does not have as many samples as the workload says.
Status check_count(const std::string& path, uint64_t count, const Layout& layout) {
  if (count == layout.samples_per_file()) return {};
  return fail(Errc::kInvalidArgument,
              "{}: has {} samples, but dataset.num_samples_per_file is {}; generate the dataset "
              "again (--generate), or change the key",
              path, count, layout.samples_per_file());
}

Result<FileSamples> index_one(const format::Format& format, io::Engine& engine,
                              const std::string& path, const Layout& layout) {
  auto samples = format.index(engine, path);
  if (!samples.ok()) {
    const bool has_path = samples.error().message().starts_with(path);
    return has_path ? std::move(samples).error() : std::move(samples).error().within(path);
  }
  RETURN_IF_ERROR(check_count(path, samples->count(), layout));
  return samples;
}

// Indexes the first file; with on_error=skip, the first one that is not damaged.
Result<FileSamples> index_first(const Workload& workload, const format::Format& format,
                                io::Engine& engine, const Layout& layout, Split split) {
  auto first = index_one(format, engine, layout.path({split, 0}), layout);
  if (first.ok() || !workload.reader.skips_bad_samples()) return first;
  for (uint64_t i = 1; i < layout.file_count(split); ++i) {
    if (auto next = index_one(format, engine, layout.path({split, i}), layout); next.ok()) {
      return next;
    }
  }
  return first;
}

// Where the samples are in every file of the split, if that follows from one file.
Result<std::optional<FileSamples>> common_places(const Workload& workload,
                                                 const format::Format* format, io::Engine& engine,
                                                 const Layout& layout, Split split) {
  if (is_whole_file(workload.dataset, format)) return std::optional<FileSamples>(FileSamples{});
  if (workload.dataset.traits().is_text || !layout.has_equal_files())
    return std::optional<FileSamples>();
  ASSIGN_OR_RETURN(FileSamples first, index_first(workload, *format, engine, layout, split));
  first.stamp = {};
  if (first.kind == FileSamples::Kind::kRecords) return std::optional<FileSamples>(first);
  const uint64_t length = first.spans[0].size_bytes;
  for (size_t i = 0; i < first.spans.size(); ++i) {
    if (first.spans[i] != data::Span{first.spans[0].offset_bytes + i * length, length}) {
      return std::optional<FileSamples>();
    }
  }
  return std::optional<FileSamples>(FileSamples{.kind = FileSamples::Kind::kRecords,
                                                .offset_bytes = first.spans[0].offset_bytes,
                                                .record_bytes = length,
                                                .record_count = first.spans.size()});
}

Result<data::Dataset> list_files(const Layout& layout, Split split, const FileSamples& places) {
  data::DatasetBuilder builder;
  const bool whole = places.kind == FileSamples::Kind::kWhole;
  for (uint64_t i = 0; i < layout.file_count(split); ++i) {
    const std::string path = layout.path({split, i});
    if (!whole) {
      RETURN_IF_ERROR(builder.add_file(path, places));
      continue;
    }
    const size_t slash = path.rfind('/');
    RETURN_IF_ERROR(builder.add_file(std::string_view(path).substr(0, slash),
                                     std::string_view(path).substr(slash + 1)));
  }
  return std::move(builder).build();
}

struct Source {
  std::shared_ptr<const data::SampleSource> source;
  std::shared_ptr<const format::Format> format;  // null: images
  std::vector<uint64_t> files;                   // those that are read, if not all are
  std::string first_left_out;                    // why the first of the others is not
};

// Files that are indexed, or opened, before the first sample is read. Their counts are checked: a
// text file that was cut has fewer rows, and is otherwise in order.
Result<Source> open_files(const Workload& workload, const Layout& layout, Split split,
                          std::span<const uint64_t> files,
                          const std::shared_ptr<io::Engine>& engine) {
  Source opened;
  // A format of its own for these files: it may remember what other files have.
  ASSIGN_OR_RETURN(opened.format, open_dataset_format(workload.dataset));
  std::vector<std::string> paths;
  for (const uint64_t file : files) paths.push_back(layout.path({split, file}));
  if (opened.format->has_own_source()) {
    ASSIGN_OR_RETURN(opened.source, opened.format->open(engine, paths, 0));
  } else {
    ASSIGN_OR_RETURN(opened.source, format::open_indexed(paths, engine, opened.format));
  }
  for (uint64_t group = 0; group < paths.size(); ++group) {
    const uint64_t count = data::index_of(opened.source->group_begin(group + 1)) -
                           data::index_of(opened.source->group_begin(group));
    RETURN_IF_ERROR(check_count(paths[group], count, layout));
  }
  return opened;
}

// Whether a file can be opened by itself. Any bytes are rows of text, so one is looked at.
Status try_file(const Workload& workload, const Layout& layout, FileId file,
                const std::shared_ptr<io::Engine>& engine, bool is_ours) {
  ASSIGN_OR_RETURN(const Source one,
                   open_files(workload, layout, file.split, {&file.index, 1}, engine));
  if (!workload.dataset.traits().is_text) return {};
  ASSIGN_OR_RETURN(const SampleCheck check, SampleCheck::of(workload, one.format, is_ours));
  data::Buffer room;
  CheckScratch scratch;
  ASSIGN_OR_RETURN(const ByteView row, one.source->read(data::SampleId{}, room));
  return check.check({.file = file}, row, scratch).within(layout.path(file));
}

// With on_error=skip, files that cannot be opened are left out.
Result<Source> open_indexed_files(const Workload& workload, const Layout& layout, Split split,
                                  const std::shared_ptr<io::Engine>& engine, bool is_ours) {
  std::vector<uint64_t> files(layout.file_count(split));
  std::iota(files.begin(), files.end(), uint64_t{0});
  auto all = open_files(workload, layout, split, files, engine);
  if (all.ok() || !workload.reader.skips_bad_samples()) return all;
  std::string first_left_out;
  std::erase_if(files, [&](uint64_t file) {
    const Status tried = try_file(workload, layout, {split, file}, engine, is_ours);
    if (!tried.ok() && first_left_out.empty()) first_left_out = tried.error().message();
    return !tried.ok();
  });
  if (files.empty()) return all;
  ASSIGN_OR_RETURN(Source some, open_files(workload, layout, split, files, engine));
  some.files = std::move(files);
  some.first_left_out = std::move(first_left_out);
  return some;
}

Result<Source> open_places(const Workload& workload, const Layout& layout, Split split,
                           const std::shared_ptr<io::Engine>& engine, bool is_ours) {
  Source opened;
  if (!workload.dataset.traits().is_image) {
    ASSIGN_OR_RETURN(opened.format, open_dataset_format(workload.dataset));
    if (opened.format->has_own_source()) {
      return open_indexed_files(workload, layout, split, engine, is_ours);
    }
  }
  ASSIGN_OR_RETURN(const auto places,
                   common_places(workload, opened.format.get(), *engine, layout, split));
  if (!places) return open_indexed_files(workload, layout, split, engine, is_ours);
  ASSIGN_OR_RETURN(data::Dataset dataset, list_files(layout, split, *places));
  opened.source = format::open_listed(std::move(dataset), engine, opened.format);
  if (places->kind == FileSamples::Kind::kWhole && layout.samples_per_file() > 1) {
    opened.source =
        std::make_shared<SlicesSource>(std::move(opened.source), layout.samples_per_file());
  }
  return opened;
}

Status check_exists(const Layout& layout, Split split) {
  const std::string path = layout.path({split, 0});
  std::error_code error;
  if (std::filesystem::exists(path, error)) return {};
  return fail(Errc::kNotFound,
              "{}: the dataset is not there; make it with --generate, or set dataset.data_folder",
              path);
}

}  // namespace

FileList files_of(const Layout& layout, Split split) {
  return {layout.file_count(split),
          [&layout, split](uint64_t i) { return layout.path({split, i}); }};
}

Result<OpenedDataset> open_dataset(const Workload& workload, const Layout& layout, Split split) {
  RETURN_IF_ERROR(check_exists(layout, split));
  ASSIGN_OR_RETURN(const std::optional<Manifest> manifest, check_dataset(workload));
  if (workload.reader.verify && !manifest) {
    return fail(Errc::kInvalidArgument,
                "{}: has no manifest of ours, so its samples cannot be verified; generate the "
                "dataset with --generate in another folder, or leave out --verify",
                layout.data_folder());
  }
  OpenedDataset opened;
  opened.counts = std::make_shared<ReadCounts>();
  opened.latencies = std::make_shared<LatencyRecorder>();
  ASSIGN_OR_RETURN(std::shared_ptr<io::Engine> engine, engine_of(workload, opened.counts));
  if (is_gzip_text(workload.dataset)) {
    engine = std::make_shared<GzipEngine>(std::move(engine), /*level=*/1);
  }
  const bool is_ours = manifest.has_value();
  ASSIGN_OR_RETURN(Source places, open_places(workload, layout, split, engine, is_ours));
  opened.source = std::make_shared<MeasuredSource>(places.source, opened.latencies);
  if (!places.files.empty()) {
    opened.left_out_count =
        (layout.file_count(split) - places.files.size()) * layout.samples_per_file();
    opened.first_left_out = places.first_left_out;
  }
  opened.checks = std::make_shared<CheckCost>();
  ASSIGN_OR_RETURN(
      opened.decoder,
      make_sample_decoder(workload, {.format = places.format,
                                     .places = {.split = split,
                                                .samples_per_file = layout.samples_per_file(),
                                                .files = std::move(places.files)},
                                     .is_ours = is_ours,
                                     .cost = opened.checks}));
  return opened;
}

}  // namespace millrace::bench
