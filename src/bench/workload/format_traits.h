// FormatTraits: what the formats of datasets mean to the benchmark, a row each.
//
// How samples are stored is the business of src/format; here is what differs between formats for
// those who generate, open and check datasets. Names of arrays are those of DLIO's files, if it
// writes the format too.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "bench/workload/choices.h"

namespace millrace::bench {

// The label beside the record: zero, or the length of the record.
struct LabelField {
  std::string_view name;  // empty: there is none
  bool is_record_bytes = false;
};

class Compressions {
 public:
  constexpr Compressions(std::initializer_list<Compression> list) {
    for (const Compression each : list) bits_ |= bit(each);
  }
  constexpr bool has(Compression one) const { return (bits_ & bit(one)) != 0; }

 private:
  static constexpr uint32_t bit(Compression one) { return uint32_t{1} << static_cast<int>(one); }

  uint32_t bits_ = 0;
};

struct FormatTraits {
  DatasetFormat format;
  std::string_view own_extension = {};  // of its files, if it is not the name
  std::string_view record = "data";
  LabelField label = {};
  Compressions compressions = {};
  char delimiter = 0;               // of the cells of a row
  bool is_text = false;             // numbers have as many characters as they need
  bool is_image = false;            // a file is one sample: pixels, and nothing beside them
  bool is_bytes = false;            // samples are bytes and nothing else
  bool has_index = false;           // files of offsets and lengths beside that of the samples
  bool stacks_samples = false;      // one array has all samples of a file, along its last axis
  bool is_whole_if_single = false;  // a file of one sample has nothing but the sample

  constexpr std::string_view extension() const {
    return own_extension.empty() ? name_of(format) : own_extension;
  }
};

// In the order of the enum.
inline constexpr FormatTraits kFormats[] = {
    {.format = DatasetFormat::kTfrecord,
     .record = "image",
     .label = {.name = "size", .is_record_bytes = true},
     .compressions = {Compression::kGzip},
     .is_whole_if_single = true},
    {.format = DatasetFormat::kHdf5,
     .record = "records_0",
     .label = {.name = "labels"},
     .compressions = {Compression::kGzip}},
    {.format = DatasetFormat::kCsv,
     .compressions = {Compression::kGzip},
     .delimiter = ',',
     .is_text = true},
    {.format = DatasetFormat::kTsv,
     .compressions = {Compression::kGzip},
     .delimiter = '\t',
     .is_text = true},
    {.format = DatasetFormat::kJson, .is_text = true},
    {.format = DatasetFormat::kJsonl, .is_text = true},
    {.format = DatasetFormat::kNpz,
     .record = "x",
     .label = {.name = "y"},
     .compressions = {Compression::kZip},
     .stacks_samples = true},
    {.format = DatasetFormat::kNpy, .stacks_samples = true},
    {.format = DatasetFormat::kJpeg, .is_image = true},
    {.format = DatasetFormat::kPng, .is_image = true},
    {.format = DatasetFormat::kIndexedBinary,
     .is_bytes = true,
     .has_index = true,
     .is_whole_if_single = true},
    {.format = DatasetFormat::kMmapIndexedBinary,
     .is_bytes = true,
     .has_index = true,
     .is_whole_if_single = true},
    {.format = DatasetFormat::kParquet,
     .compressions = {Compression::kGzip, Compression::kSnappy, Compression::kZstd}},
    {.format = DatasetFormat::kMegatron, .own_extension = "bin", .record = "tokens"},
    {.format = DatasetFormat::kRaw, .is_bytes = true},
    {.format = DatasetFormat::kSynthetic},
};
static_assert(std::ranges::equal(kFormats, kWords<DatasetFormat>, {},
                                 [](const FormatTraits& each) { return name_of(each.format); }));

constexpr const FormatTraits& traits_of(DatasetFormat format) {
  return kFormats[static_cast<size_t>(format)];
}

}  // namespace millrace::bench
