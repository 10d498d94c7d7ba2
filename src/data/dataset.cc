#include "data/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <limits>

namespace millrace::data {
namespace {

using Kind = FileSamples::Kind;

constexpr int32_t kNoLabel = -1;

template <typename T>
uint64_t heap_bytes(const std::vector<T>& items) {
  return items.capacity() * sizeof(T);
}

void append(std::vector<char>& arena, std::string_view text) {
  arena.insert(arena.end(), text.begin(), text.end());
}

// Appends to a column. Samples without a value, earlier ones included, get `none`.
template <typename T>
void extend(std::vector<T>& column, const std::vector<T>& more, uint64_t before, uint64_t count,
            T none) {
  if (column.empty() && more.empty()) return;
  column.resize(before, none);
  column.insert(column.end(), more.begin(), more.end());
  column.resize(before + count, none);
}

}  // namespace

uint64_t FileSamples::count() const {
  switch (kind) {
    case Kind::kWhole:
      return 1;
    case Kind::kRecords:
      return record_count;
    case Kind::kListed:
      break;
  }
  return spans.size();
}

std::string_view Dataset::text(const std::vector<char>& arena, const std::vector<uint64_t>& ends,
                               uint64_t index) const {
  const uint64_t begin = index == 0 ? 0 : ends[index - 1];
  return {arena.data() + begin, static_cast<size_t>(ends[index] - begin)};
}

FileIndex Dataset::file_of(SampleId sample) const {
  const uint64_t index = index_of(sample);
  assert(index < sample_count_);
  if (entries_.empty()) return FileIndex{static_cast<uint32_t>(index)};
  // The last file that begins at or before the sample. Empty files before it may begin there too.
  const auto after = std::upper_bound(
      entries_.begin(), entries_.end(), index,
      [](uint64_t value, const FileEntry& entry) { return value < entry.first_sample; });
  return FileIndex{static_cast<uint32_t>(after - entries_.begin() - 1)};
}

Extent Dataset::extent(SampleId sample) const {
  const FileIndex file = file_of(sample);
  if (entries_.empty()) return {.file = file};
  const FileEntry& entry = entries_[index_of(file)];
  const uint64_t nth = index_of(sample) - entry.first_sample;
  switch (entry.kind) {
    case Kind::kWhole:
      return {.file = file};
    case Kind::kRecords:
      return {.file = file,
              .offset_bytes = entry.offset_bytes + nth * entry.record_bytes,
              .size_bytes = entry.record_bytes};
    case Kind::kListed:
      break;
  }
  const Span& span = spans_[entry.first_span + nth];
  return {.file = file, .offset_bytes = span.offset_bytes, .size_bytes = span.size_bytes};
}

std::string Dataset::path(FileIndex file) const {
  const std::string& directory = directories_[file_directories_[index_of(file)]];
  const std::string_view name = text(names_, name_ends_, index_of(file));
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path += directory;
  if (!directory.empty() && directory.back() != '/') path += '/';
  path += name;
  return path;
}

FileStamp Dataset::stamp(FileIndex file) const {
  return entries_.empty() ? FileStamp{} : entries_[index_of(file)].stamp;
}

std::string Dataset::name(SampleId sample) const {
  const Extent extent = this->extent(sample);
  std::string path = this->path(extent.file);
  if (extent.size_bytes == Extent::kToTheEnd) return path;
  const uint64_t index = index_of(sample);
  if (!sample_name_ends_.empty()) {
    const std::string_view own = text(sample_names_, sample_name_ends_, index);
    if (!own.empty()) {
      return fmt::format("{}: sample '{}' at byte {}", path, own, extent.offset_bytes);
    }
  }
  return fmt::format("{}: record {} at byte {}", path,
                     index - entries_[index_of(extent.file)].first_sample, extent.offset_bytes);
}

std::optional<int64_t> Dataset::label(SampleId sample) const {
  if (labels_.empty() || labels_[index_of(sample)] == kNoLabel) return std::nullopt;
  return labels_[index_of(sample)];
}

std::optional<uint32_t> Dataset::checksum(SampleId sample) const {
  if (checksums_.empty()) return std::nullopt;
  return checksums_[index_of(sample)];
}

SampleId Dataset::file_begin(uint64_t file) const {
  if (file >= file_count()) return SampleId{sample_count_};
  return SampleId{entries_.empty() ? file : entries_[file].first_sample};
}

uint64_t Dataset::memory_bytes() const {
  uint64_t bytes = heap_bytes(directories_) + heap_bytes(file_directories_) + heap_bytes(names_) +
                   heap_bytes(name_ends_) + heap_bytes(entries_) + heap_bytes(spans_) +
                   heap_bytes(sample_names_) + heap_bytes(sample_name_ends_) + heap_bytes(labels_) +
                   heap_bytes(checksums_) + heap_bytes(class_names_);
  for (const std::string& directory : directories_) bytes += directory.capacity();
  for (const std::string& name : class_names_) bytes += name.capacity();
  return bytes;
}

Result<uint32_t> DatasetBuilder::directory_index(std::string_view directory) {
  // Files of one directory usually arrive together: all but the first skip the table.
  if (!dataset_.directories_.empty() && dataset_.directories_[last_directory_] == directory) {
    return last_directory_;
  }
  const auto [place, is_new] = directories_.try_emplace(
      std::string(directory), static_cast<uint32_t>(dataset_.directories_.size()));
  if (is_new) dataset_.directories_.emplace_back(directory);
  last_directory_ = place->second;
  return last_directory_;
}

Status DatasetBuilder::add_name(std::string_view directory, std::string_view name) {
  if (dataset_.file_count() >= std::numeric_limits<uint32_t>::max()) {
    return fail(Errc::kUnsupported,
                "a dataset can have at most {} files; store many samples per file (tar, tfrecord "
                "or indexed)",
                std::numeric_limits<uint32_t>::max());
  }
  ASSIGN_OR_RETURN(const uint32_t index, directory_index(directory));
  dataset_.file_directories_.push_back(index);
  append(dataset_.names_, name);
  dataset_.name_ends_.push_back(dataset_.names_.size());
  return {};
}

// Until now every file was one sample. From now on each file has an entry.
void DatasetBuilder::begin_entries() {
  for (uint64_t file = dataset_.entries_.size(); file < dataset_.file_count(); ++file) {
    dataset_.entries_.push_back({.first_sample = file});
  }
}

void DatasetBuilder::add_sample_columns(const FileSamples& samples) {
  Dataset& out = dataset_;
  const uint64_t before = out.sample_count_;
  const uint64_t count = samples.count();
  extend(out.labels_, samples.labels, before, count, kNoLabel);
  extend(out.checksums_, samples.checksums, before, count, 0u);
  if (!out.sample_name_ends_.empty() || !samples.names.empty()) {
    out.sample_name_ends_.resize(before, out.sample_names_.size());
    for (const std::string& name : samples.names) {
      append(out.sample_names_, name);
      out.sample_name_ends_.push_back(out.sample_names_.size());
    }
    out.sample_name_ends_.resize(before + count, out.sample_names_.size());
  }
}

Status DatasetBuilder::add_file(std::string_view directory, std::string_view name,
                                std::optional<int32_t> label) {
  if (!dataset_.entries_.empty()) {
    FileSamples samples;
    if (label) samples.labels.push_back(*label);
    return add_file(fmt::format("{}/{}", directory, name), samples);
  }
  RETURN_IF_ERROR(add_name(directory, name));
  if (label || !dataset_.labels_.empty()) {
    dataset_.labels_.resize(dataset_.sample_count_, kNoLabel);
    dataset_.labels_.push_back(label.value_or(kNoLabel));
  }
  dataset_.sample_count_ += 1;
  return {};
}

Status DatasetBuilder::add_file(std::string_view path, const FileSamples& samples) {
  const size_t slash = path.rfind('/');
  // "/x" is x in the directory "/".
  const std::string_view directory =
      slash == std::string_view::npos ? "" : path.substr(0, std::max<size_t>(slash, 1));
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  // Checksums are all or nothing: checksum() has no value for "unknown".
  if (dataset_.sample_count_ > 0 && samples.count() > 0 &&
      samples.checksums.empty() != dataset_.checksums_.empty()) {
    return fail(Errc::kInvalidArgument, "{}: a dataset cannot mix files with and without checksums",
                path);
  }
  uint64_t total = 0;
  if (__builtin_add_overflow(dataset_.sample_count_, samples.count(), &total)) {
    return fail(Errc::kCorrupt, "{}: adding {} samples overflows the 64-bit sample count", path,
                samples.count());
  }
  const bool only_whole_files = dataset_.entries_.empty() && samples.kind == Kind::kWhole;
  if (!only_whole_files) begin_entries();
  RETURN_IF_ERROR(add_name(directory, name));
  add_sample_columns(samples);
  if (!only_whole_files) {
    dataset_.entries_.push_back({.first_sample = dataset_.sample_count_,
                                 .offset_bytes = samples.offset_bytes,
                                 .record_bytes = samples.record_bytes,
                                 .first_span = dataset_.spans_.size(),
                                 .stamp = samples.stamp,
                                 .kind = samples.kind});
    dataset_.spans_.insert(dataset_.spans_.end(), samples.spans.begin(), samples.spans.end());
  }
  dataset_.sample_count_ = total;
  return {};
}

Dataset DatasetBuilder::build() && {
  Dataset& out = dataset_;
  out.directories_.shrink_to_fit();
  out.file_directories_.shrink_to_fit();
  out.names_.shrink_to_fit();
  out.name_ends_.shrink_to_fit();
  out.entries_.shrink_to_fit();
  out.spans_.shrink_to_fit();
  out.sample_names_.shrink_to_fit();
  out.sample_name_ends_.shrink_to_fit();
  out.labels_.shrink_to_fit();
  out.checksums_.shrink_to_fit();
  return std::move(dataset_);
}

}  // namespace millrace::data
