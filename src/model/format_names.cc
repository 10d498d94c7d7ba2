#include "model/format_names.h"

#include <algorithm>
#include <cctype>

namespace millrace::model {
namespace {

struct Extension {
  std::string_view name;
  std::string_view format;
};
constexpr Extension kExtensions[] = {
    {".tfrecord", "tfrecord"}, {".tfrecords", "tfrecord"},
    {".tfrec", "tfrecord"},    {".h5", "hdf5"},
    {".hdf5", "hdf5"},         {".he5", "hdf5"},
    {".nc", "hdf5"},           {".csv", "csv"},
    {".tsv", "tsv"},           {".json", "json"},
    {".jsonl", "jsonl"},       {".ndjson", "jsonl"},
    {".npz", "npz"},           {".npy", "npy"},
    {".jpg", "jpeg"},          {".jpeg", "jpeg"},
    {".png", "png"},           {".parquet", "parquet"},
    {".pq", "parquet"},        {".bin", "raw"},
    {".raw", "raw"},           {".dat", "raw"},
};

// What a sample becomes in a file, measured on files that `bench` generates from random bytes.
struct FormatSize {
  std::string_view format;
  StoredSize size;
};
constexpr FormatSize kSizes[] = {
    {"jpeg", {.bytes_per_byte = 0.556, .per_file_bytes = 380}},  // gray noise, quality 75
    {"png", {.bytes_per_byte = 1.0, .per_file_bytes = 110}},
    {"npy", {.per_file_bytes = 128}},
    {"npz", {.per_file_bytes = 500, .per_sample_bytes = 8}},
    {"tfrecord", {.per_sample_bytes = 16}},
    {"hdf5", {.per_file_bytes = 2048, .per_sample_bytes = 8}},
    {"csv", {.bytes_per_byte = 3.57}},  // "255," has 3.57 characters on average
    {"tsv", {.bytes_per_byte = 3.57}},
    {"json", {.bytes_per_byte = 3.57}},
    {"jsonl", {.bytes_per_byte = 3.57}},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view format_of_extension(std::string_view extension) {
  for (const Extension& known : kExtensions) {
    if (extension == known.name) return known.format;
  }
  return {};
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

FormatName named(std::string_view format, std::string_view compression = "none") {
  return {.format = std::string(format),
          .compression = std::string(compression),
          .one_sample_per_file = format == "jpeg" || format == "png"};
}

}  // namespace

FormatName format_of_name(std::string_view extension, std::string_view path) {
  std::string ending = lower(extension);
  const std::string name = lower(file_name(path));
  if (const auto format = format_of_extension(ending); !format.empty()) return named(format);
  if (ending.ends_with(".gz")) {
    ending.resize(ending.size() - 3);
    const size_t dot = ending.rfind('.');
    if (dot != std::string::npos) ending = ending.substr(dot);
    const auto format = format_of_extension(ending);
    const bool is_whole = format == "tfrecord" || format == "csv" || format == "tsv" ||
                          format == "json" || format == "jsonl";
    if (is_whole) return named(format, "gzip");
  }
  if (name.find("tfrecord") != std::string::npos || is_shard_name(name)) return named("tfrecord");
  FormatName raw = named("raw");
  raw.known = false;
  return raw;
}

double StoredSize::record_bytes(double file_bytes, uint64_t samples) const {
  const auto count = static_cast<double>(std::max<uint64_t>(samples, 1));
  const double payload = file_bytes - static_cast<double>(per_file_bytes);
  const double each = payload / count - static_cast<double>(per_sample_bytes);
  return std::max(each / bytes_per_byte, 1.0);
}

StoredSize stored_size_of(std::string_view format) {
  for (const FormatSize& known : kSizes) {
    if (known.format == format) return known.size;
  }
  return {};
}

}  // namespace millrace::model
