// HDF5 files around an outline (Hdf5Outline of file_job.h).
#include <fcntl.h>

#include <algorithm>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "bench/generate/file_job.h"
#include "format/hdf5/library.h"

namespace millrace::bench {
namespace {

using format::Hdf5Dataset;

Status create_outline(const std::string& path, const DatasetConfig& dataset,
                      const std::vector<SampleArray>& arrays, const format::Hdf5Library& library) {
  format::FormatOptions options;
  options.hdf5.sample_count = dataset.num_samples_per_file;
  options.hdf5.without_rows = true;
  ASSIGN_OR_RETURN(const auto writer, library.create(path, options));
  std::vector<format::Field> fields;
  for (const SampleArray& array : arrays) {
    fields.push_back(
        {.name = array.name, .array = {.type = array.content.type, .shape = array.content.shape}});
  }
  const LabelField label = label_of(dataset);
  if (!label.name.empty()) {
    fields.push_back({.name = label.name, .array = {.type = data::ElementType::kI64}});
  }
  RETURN_IF_ERROR(writer->add("", fields));
  return writer->finish();
}

Result<std::vector<std::byte>> bytes_between(const File& file, uint64_t begin, uint64_t end) {
  std::vector<std::byte> bytes(static_cast<size_t>(end - begin));
  ASSIGN_OR_RETURN(const size_t count, file.read_at(begin, bytes));
  if (count != bytes.size()) return fail(Errc::kCorrupt, "the outline of the file is too short");
  return bytes;
}

Result<Hdf5Outline> read_outline(const std::string& path, std::vector<Hdf5Dataset> datasets) {
  const auto before = [](const auto& a, const auto& b) { return a.offset_bytes < b.offset_bytes; };
  std::sort(datasets.begin(), datasets.end(), before);
  ASSIGN_OR_RETURN(const File file, File::open(path, O_RDONLY));
  Hdf5Outline outline;
  ASSIGN_OR_RETURN(outline.file_bytes, file.size_bytes());
  uint64_t at = 0;
  for (const Hdf5Dataset& dataset : datasets) {
    if (dataset.offset_bytes < at ||
        dataset.offset_bytes + dataset.size_bytes() > outline.file_bytes) {
      return fail(Errc::kCorrupt, "libhdf5 put dataset '{}' outside of its file", dataset.name);
    }
    ASSIGN_OR_RETURN(std::vector<std::byte> bytes, bytes_between(file, at, dataset.offset_bytes));
    outline.parts.push_back(
        {.before = std::move(bytes), .name = dataset.name, .size_bytes = dataset.size_bytes()});
    at = dataset.offset_bytes + dataset.size_bytes();
  }
  ASSIGN_OR_RETURN(outline.behind, bytes_between(file, at, outline.file_bytes));
  return outline;
}

// The elements of all samples in one dataset.
Status append_elements(const FileJob& job, const Hdf5Outline::Part& part, BlockFile& out) {
  const DatasetPlan& plan = job.plan;
  if (part.name == label_of(plan.dataset()).name) return out.append_zeros(part.size_bytes);
  for (uint64_t sample = 0; sample < plan.layout.samples_per_file(); ++sample) {
    ASSIGN_OR_RETURN(
        const std::vector<SampleArray> arrays,
        sample_arrays(plan.dataset(), plan.layout, {.file = job.file, .sample = sample}));
    for (const SampleArray& array : arrays) {
      if (array.name != part.name) continue;
      RETURN_IF_ERROR(out.append_array(plan.content, array.content, nullptr));
    }
  }
  return {};
}

}  // namespace

Result<std::optional<Hdf5Outline>> make_hdf5_outline(const DatasetConfig& dataset,
                                                     const std::vector<SampleArray>& arrays) {
  const std::optional<Hdf5Outline> none;
  const auto library = format::hdf5_library();
  const bool has_chunks =
      dataset.enable_chunking || !dataset.chunk_dims.empty() || !dataset.max_shape.empty();
  if (dataset.compression != Compression::kNone || has_chunks || !library.ok()) return none;
  const auto directory = TemporaryDirectory::create();
  if (!directory.ok()) return none;
  // As long as a file of the dataset, but sparse. If it fails, libhdf5 reports why for a real file.
  const std::string path = directory->path() / "outline.h5";
  if (!create_outline(path, dataset, arrays, **library).ok()) return none;
  ASSIGN_OR_RETURN(format::Hdf5Layout layout, (*library)->read_layout(path, {}));
  const size_t expected = arrays.size() + (label_of(dataset).name.empty() ? 0 : 1);
  if (layout.datasets.size() != expected) return none;
  for (const Hdf5Dataset& each : layout.datasets) {
    if (each.kind != Hdf5Dataset::Kind::kContiguous) return none;
  }
  ASSIGN_OR_RETURN(Hdf5Outline outline, read_outline(path, std::move(layout.datasets)));
  return std::optional<Hdf5Outline>(std::move(outline));
}

Status write_hdf5_file(const FileJob& job) {
  ASSIGN_OR_RETURN(BlockFile out, BlockFile::create(job.path, job.rooms.block, job.written));
  for (const Hdf5Outline::Part& part : job.plan.hdf5_outline->parts) {
    RETURN_IF_ERROR(out.append(part.before));
    RETURN_IF_ERROR(append_elements(job, part, out));
  }
  RETURN_IF_ERROR(out.append(job.plan.hdf5_outline->behind));
  return out.close();
}

}  // namespace millrace::bench
