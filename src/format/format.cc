#include "format/format.h"

#include <algorithm>

#include "base/text/spelling.h"
#include "base/text/text.h"
#include "format/formats.h"

namespace millrace::format {
namespace {

constexpr std::string_view kRawEnds[] = {".bin", ".raw"};
constexpr std::string_view kNpyEnds[] = {".npy"};
constexpr std::string_view kNpzEnds[] = {".npz"};
constexpr std::string_view kTfrecordEnds[] = {".tfrecord", ".tfrecords"};
constexpr std::string_view kTarEnds[] = {".tar"};
constexpr std::string_view kIndexedEnds[] = {".mrd"};
constexpr std::string_view kCsvEnds[] = {".csv"};
constexpr std::string_view kTsvEnds[] = {".tsv", ".tab"};
constexpr std::string_view kJsonEnds[] = {".json"};
constexpr std::string_view kJsonlEnds[] = {".jsonl", ".ndjson"};
constexpr std::string_view kIndexedBinaryEnds[] = {".indexed_binary"};
constexpr std::string_view kMmapIndexedBinaryEnds[] = {".mmap_indexed_binary"};
constexpr std::string_view kMegatronEnds[] = {".bin"};  // raw has it too and comes first
constexpr std::string_view kTfrecordGzipEnds[] = {".tfrecord.gz", ".tfrecords.gz"};
constexpr std::string_view kHdf5Ends[] = {".h5", ".hdf5"};
constexpr std::string_view kParquetEnds[] = {".parquet"};

struct FormatEntry {
  std::string_view name;
  std::span<const std::string_view> extensions;
  std::unique_ptr<Format> (*make)(const FormatOptions& options);
};

// clang-format off
constexpr FormatEntry kFormats[] = {
    {"raw", kRawEnds, &make_raw},
    {"npy", kNpyEnds, &make_npy},
    {"npz", kNpzEnds, &make_npz},
    {"tfrecord", kTfrecordEnds, &make_tfrecord},
    {"tar", kTarEnds, &make_tar},
    {"indexed", kIndexedEnds, &make_indexed},
    {"csv", kCsvEnds, &make_csv},
    {"tsv", kTsvEnds, &make_tsv},
    {"json", kJsonEnds, &make_json},
    {"jsonl", kJsonlEnds, &make_jsonl},
    {"indexed_binary", kIndexedBinaryEnds, &make_indexed_binary},
    {"mmap_indexed_binary", kMmapIndexedBinaryEnds, &make_mmap_indexed_binary},
    {"megatron", kMegatronEnds, &make_megatron},
    {"tfrecord_gzip", kTfrecordGzipEnds, &make_tfrecord_gzip},
    {"hdf5", kHdf5Ends, &make_hdf5},
    {"parquet", kParquetEnds, &make_parquet},
};
// clang-format on

const FormatEntry* find_entry(std::string_view name) {
  const auto entry = std::find_if(std::begin(kFormats), std::end(kFormats),
                                  [&](const FormatEntry& each) { return each.name == name; });
  return entry == std::end(kFormats) ? nullptr : entry;
}

}  // namespace

Field bytes_field(std::string_view name, ByteView bytes) {
  return {.name = name,
          .array = {.type = data::ElementType::kU8, .shape = {bytes.size()}, .bytes = bytes}};
}

Result<std::shared_ptr<data::SampleSource>> Format::open(std::shared_ptr<io::Engine>,
                                                         const std::vector<std::string>&,
                                                         size_t) const {
  return fail(Errc::kUnsupported, "samples of {} files are read by their place; use open_samples()",
              name());
}

void SampleFields::clear() {
  list_.clear();
  head_.clear();
  is_repeated_ = false;
  rooms_used_ = 0;
  texts_used_ = 0;
}

const Field* SampleFields::find(std::string_view names) const {
  const auto whole = std::ranges::find(list_, names, &Field::name);  // a name may contain ';'
  if (whole != list_.end()) return &*whole;
  while (true) {
    const size_t end = names.find(';');
    const std::string_view name = names.substr(0, end);
    for (const Field& field : list_) {
      if (field.name == name) return &field;
    }
    if (end == std::string_view::npos) return nullptr;
    names.remove_prefix(end + 1);
  }
}

std::string SampleFields::names() const {
  std::vector<std::string> quoted;
  for (const Field& field : list_) quoted.push_back(fmt::format("'{}'", printable(field.name)));
  return quoted.empty() ? "none" : join(quoted, ", ");
}

void SampleFields::remember(ByteView sample, size_t head_bytes) {
  head_.assign(sample.data(), sample.data() + head_bytes);
  remembered_bytes_ = sample.size();
  offsets_.clear();
  for (Field& field : list_) {
    offsets_.push_back(static_cast<size_t>(field.array.bytes.data() - sample.data()));
    const auto name_at = reinterpret_cast<const std::byte*>(field.name.data()) - sample.data();
    field.name = text_of(head_).substr(static_cast<size_t>(name_at), field.name.size());
  }
}

bool SampleFields::repeat(ByteView sample) {
  if (head_.empty() || sample.size() != remembered_bytes_ ||
      text_of(sample.first(head_.size())) != text_of(head_)) {
    return false;
  }
  rooms_used_ = 0;
  texts_used_ = 0;
  for (size_t i = 0; i < list_.size(); ++i) {
    ByteView& bytes = list_[i].array.bytes;
    bytes = sample.subspan(offsets_[i], bytes.size());
  }
  is_repeated_ = true;
  return true;
}

MutableByteView SampleFields::room(size_t size_bytes) {
  if (rooms_used_ == rooms_.size()) rooms_.emplace_back();
  return rooms_[rooms_used_++].room(size_bytes);
}

std::string_view SampleFields::keep(std::string_view text) {
  if (texts_used_ == texts_.size()) texts_.emplace_back();
  return texts_[texts_used_++].assign(text);
}

Result<std::unique_ptr<Format>> open_format(std::string_view name, const FormatOptions& options) {
  const FormatEntry* entry = find_entry(name);
  if (entry == nullptr) {
    const std::vector<std::string> known = format_names();
    return fail(Errc::kInvalidArgument, "unknown format '{}'{}; choose one of {}", printable(name),
                did_you_mean(name, known), join(known, ", "));
  }
  return entry->make(options);
}

Result<std::string_view> format_of(const std::filesystem::path& path) {
  const std::string file = path.filename().string();
  for (const FormatEntry& entry : kFormats) {
    if (has_name_of(file, entry.name)) return entry.name;
  }
  return fail(Errc::kInvalidArgument, "{}: the name does not show the format; choose one of {}",
              printable(path.string()), join(format_names(), ", "));
}

bool has_name_of(std::string_view file, std::string_view format_name) {
  for (const std::string_view extension : extensions_of(format_name)) {
    if (file.ends_with(extension)) return true;
    // TensorFlow's shards: "train.tfrecord-00001-of-00064".
    const size_t at = format_name == "tfrecord" ? file.rfind(extension) : std::string_view::npos;
    if (at != std::string_view::npos && file.substr(at + extension.size()).starts_with('-')) {
      return true;
    }
  }
  return false;
}

std::span<const std::string_view> extensions_of(std::string_view format_name) {
  const FormatEntry* entry = find_entry(format_name);
  return entry == nullptr ? std::span<const std::string_view>() : entry->extensions;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const FormatEntry& entry : kFormats) names.emplace_back(entry.name);
  return names;
}

}  // namespace millrace::format
