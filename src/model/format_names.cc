#include "model/format_names.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "bench/workload/format_traits.h"

namespace millrace::model {
namespace {

using bench::Compression;
using bench::DatasetFormat;

struct Extension {
  std::string_view name;
  DatasetFormat format;
};
constexpr Extension kExtensions[] = {
    {".tfrecord", DatasetFormat::kTfrecord}, {".tfrecords", DatasetFormat::kTfrecord},
    {".tfrec", DatasetFormat::kTfrecord},    {".h5", DatasetFormat::kHdf5},
    {".hdf5", DatasetFormat::kHdf5},         {".he5", DatasetFormat::kHdf5},
    {".nc", DatasetFormat::kHdf5},           {".csv", DatasetFormat::kCsv},
    {".tsv", DatasetFormat::kTsv},           {".json", DatasetFormat::kJson},
    {".jsonl", DatasetFormat::kJsonl},       {".ndjson", DatasetFormat::kJsonl},
    {".npz", DatasetFormat::kNpz},           {".npy", DatasetFormat::kNpy},
    {".jpg", DatasetFormat::kJpeg},          {".jpeg", DatasetFormat::kJpeg},
    {".png", DatasetFormat::kPng},           {".parquet", DatasetFormat::kParquet},
    {".pq", DatasetFormat::kParquet},        {".bin", DatasetFormat::kRaw},
    {".raw", DatasetFormat::kRaw},           {".dat", DatasetFormat::kRaw},
};

// What a sample becomes in a file, measured on files that `bench` generates from random bytes.
struct FormatSize {
  DatasetFormat format;
  StoredSize size;
};
constexpr FormatSize kSizes[] = {
    {DatasetFormat::kJpeg,
     {.bytes_per_byte = 0.556, .per_file_bytes = 380}},  // gray noise, quality 75
    {DatasetFormat::kPng, {.bytes_per_byte = 1.0, .per_file_bytes = 110}},
    {DatasetFormat::kNpy, {.per_file_bytes = 128}},
    {DatasetFormat::kNpz, {.per_file_bytes = 500, .per_sample_bytes = 8}},
    {DatasetFormat::kTfrecord, {.per_sample_bytes = 16}},
    {DatasetFormat::kHdf5, {.per_file_bytes = 2048, .per_sample_bytes = 8}},
    {DatasetFormat::kCsv, {.bytes_per_byte = 3.57}},  // "255," has 3.57 characters on average
    {DatasetFormat::kTsv, {.bytes_per_byte = 3.57}},
    {DatasetFormat::kJson, {.bytes_per_byte = 3.57}},
    {DatasetFormat::kJsonl, {.bytes_per_byte = 3.57}},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<DatasetFormat> format_of_extension(std::string_view extension) {
  for (const Extension& known : kExtensions) {
    if (extension == known.name) return known.format;
  }
  return std::nullopt;
}

std::string_view file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "-00003-of-00128", as TensorFlow's writers name shards.
bool is_shard_name(std::string_view name) {
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || of + 4 >= name.size() || of == 0) return false;
  const std::string_view count = name.substr(of + 4);
  return std::isdigit(static_cast<unsigned char>(name[of - 1])) != 0 &&
         std::all_of(count.begin(), count.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

FormatName name_with(DatasetFormat format, Compression compression = Compression::kNone) {
  return {.format = format,
          .compression = compression,
          .one_sample_per_file = traits_of(format).is_image};
}

}  // namespace

FormatName format_of_name(std::string_view extension, std::string_view path) {
  std::string ending = lower(extension);
  const std::string name = lower(file_name(path));
  if (const auto format = format_of_extension(ending)) return name_with(*format);
  if (ending.ends_with(".gz")) {
    ending.resize(ending.size() - 3);
    const size_t dot = ending.rfind('.');
    if (dot != std::string::npos) ending = ending.substr(dot);
    const auto format = format_of_extension(ending);
    const bool is_whole =
        format && (*format == DatasetFormat::kTfrecord || traits_of(*format).is_text);
    if (is_whole) return name_with(*format, Compression::kGzip);
  }
  if (name.find("tfrecord") != std::string::npos || is_shard_name(name)) {
    return name_with(DatasetFormat::kTfrecord);
  }
  FormatName raw = name_with(DatasetFormat::kRaw);
  raw.known = false;
  return raw;
}

double StoredSize::record_bytes(double file_bytes, uint64_t samples) const {
  const auto count = static_cast<double>(std::max<uint64_t>(samples, 1));
  const double payload = file_bytes - static_cast<double>(per_file_bytes);
  const double each = payload / count - static_cast<double>(per_sample_bytes);
  return std::max(each / bytes_per_byte, 1.0);
}

StoredSize stored_size_of(DatasetFormat format) {
  for (const FormatSize& known : kSizes) {
    if (known.format == format) return known.size;
  }
  return {};
}

}  // namespace millrace::model
