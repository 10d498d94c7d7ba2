// Files that are written sample by sample by their format, and what all ways of writing share.
#include "bench/generate/file_job.h"
#include "bench/samples/gzip_engine.h"

namespace millrace::bench {
namespace {

// About how much longer a file is than its records: numbers as text take more.
double length_factor(const DatasetConfig& dataset) {
  return dataset.traits().is_text && dataset.content != ContentKind::kText ? 4.0 : 1.0;
}

// Fills the arrays one behind the other in `room`.
std::vector<format::Field> filled_fields(const DatasetPlan& plan,
                                         const std::vector<SampleArray>& arrays,
                                         data::Buffer& room) {
  uint64_t sum = 0;
  for (const SampleArray& array : arrays) sum += array.content.size_bytes();
  MutableByteView left = room.room(static_cast<size_t>(sum));
  std::vector<format::Field> fields;
  for (const SampleArray& array : arrays) {
    const MutableByteView bytes = left.first(static_cast<size_t>(array.content.size_bytes()));
    plan.content.fill(array.content, 0, bytes);
    fields.push_back(
        {.name = array.name,
         .array = {.type = array.content.type, .shape = array.content.shape, .bytes = bytes}});
    left = left.subspan(bytes.size());
  }
  return fields;
}

Status add_sample(const FileJob& job, uint64_t sample, format::SampleWriter& writer) {
  const DatasetPlan& plan = job.plan;
  ASSIGN_OR_RETURN(
      const std::vector<SampleArray> arrays,
      sample_arrays(plan.dataset(), plan.layout, {.file = job.file, .sample = sample}));
  std::vector<format::Field> fields = filled_fields(plan, arrays, job.rooms.record);
  uint64_t bytes = 0;
  for (const format::Field& field : fields) bytes += field.array.bytes.size();
  const LabelField label = label_of(plan.dataset());
  const uint64_t label_value = label.is_record_bytes ? plan.layout.record_bytes(job.file) : 0;
  if (!label.name.empty()) {
    fields.push_back({.name = label.name,
                      .array = {.type = data::ElementType::kI64,
                                .shape = label.is_record_bytes ? data::Shape{1} : data::Shape{},
                                .bytes = std::as_bytes(std::span(&label_value, 1))}});
  }
  RETURN_IF_ERROR(writer.add(fmt::format("{:08}", sample), fields));
  if (job.written) job.written(bytes);
  return {};
}

}  // namespace

Result<DatasetPlan> DatasetPlan::of(const Workload& workload) {
  ASSIGN_OR_RETURN(Layout layout, Layout::of(workload));
  DatasetPlan plan{
      .workload = &workload, .layout = std::move(layout), .content = Content(workload.dataset)};
  if (is_streamed(workload.dataset)) {
    const bool are_equal = plan.layout.has_equal_files() &&
                           workload.dataset.format != DatasetFormat::kSynthetic &&
                           !has_deflated_members(workload.dataset);
    if (are_equal) plan.equal_file_bytes = streamed_file_bytes(plan, {});
    return plan;
  }
  if (workload.dataset.traits().is_image) {
    RETURN_IF_ERROR(prepare_images(plan));
    return plan;
  }
  ASSIGN_OR_RETURN(plan.format, open_dataset_format(workload.dataset));
  ASSIGN_OR_RETURN(plan.engine, io::open_engine("posix"));
  if (is_gzip_text(workload.dataset)) {
    plan.engine = std::make_unique<GzipEngine>(
        std::move(plan.engine), static_cast<int>(workload.dataset.compression_level));
  }
  if (workload.dataset.format == DatasetFormat::kHdf5 && plan.layout.has_equal_files()) {
    ASSIGN_OR_RETURN(const std::vector<SampleArray> arrays,
                     sample_arrays(workload.dataset, plan.layout, {}));
    ASSIGN_OR_RETURN(plan.hdf5_outline, make_hdf5_outline(workload.dataset, arrays));
    if (plan.hdf5_outline) plan.equal_file_bytes = plan.hdf5_outline->file_bytes;
  }
  return plan;
}

Status write_file_by_format(const FileJob& job) {
  ASSIGN_OR_RETURN(const auto writer, job.plan.format->create(*job.plan.engine, job.path));
  for (uint64_t sample = 0; sample < job.plan.layout.samples_per_file(); ++sample) {
    RETURN_IF_ERROR(add_sample(job, sample, *writer));
  }
  return writer->finish();
}

Status write_dataset_file(const FileJob& job) {
  if (job.plan.hdf5_outline) return write_hdf5_file(job);
  if (job.plan.dataset().format == DatasetFormat::kParquet) return write_parquet_file(job);
  if (job.plan.format != nullptr) return write_file_by_format(job);
  return job.plan.dataset().traits().is_image ? write_image_file(job) : write_streamed_file(job);
}

std::optional<uint64_t> known_file_bytes(const DatasetPlan& plan, FileId file) {
  if (plan.equal_file_bytes) return plan.equal_file_bytes;
  if (!is_streamed(plan.dataset()) || has_deflated_members(plan.dataset())) return std::nullopt;
  return streamed_file_bytes(plan, file);
}

uint64_t estimated_file_bytes(const DatasetPlan& plan, FileId file) {
  if (const auto known = known_file_bytes(plan, file)) {
    return *known + (plan.dataset().traits().has_index
                         ? plan.layout.samples_per_file() * 2 * sizeof(uint64_t)
                         : 0);
  }
  return static_cast<uint64_t>(static_cast<double>(plan.layout.payload_bytes(file)) *
                               length_factor(plan.dataset()));
}

}  // namespace millrace::bench
