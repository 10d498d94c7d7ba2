// Choices: the keys of a workload that are one of a few words, as enums.
//
// The words are text only in files, on the command line and in results. Each enum has its words in
// the order of its values, and values without gaps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::bench {

enum class Framework : uint8_t { kPytorch, kTensorflow };
enum class Storage : uint8_t { kLocalFs };
enum class DatasetFormat : uint8_t {
  kTfrecord,
  kHdf5,
  kCsv,
  kTsv,
  kJson,
  kJsonl,
  kNpz,
  kNpy,
  kJpeg,
  kPng,
  kIndexedBinary,
  kMmapIndexedBinary,
  kParquet,
  kMegatron,
  kRaw,
  kSynthetic,
};
enum class Compression : uint8_t { kNone, kGzip, kLzf, kBz2, kZip, kXz, kSnappy, kZstd };
enum class ContentKind : uint8_t { kRandom, kPhoto, kPhysics, kText, kZero };
enum class ParquetReads : uint8_t { kRowGroup, kFile };
enum class DataLoader : uint8_t { kNative, kPytorch, kTensorflow, kDali };
enum class Shuffle : uint8_t { kOff, kSeed, kRandom };
enum class ReadType : uint8_t { kOnDemand, kMemory };
enum class FileAccess : uint8_t { kMulti, kShared };
enum class OnError : uint8_t { kFail, kSkip };
enum class TensorType : uint8_t { kFp16, kBf16, kFp32, kFp64, kInt8, kUint8, kInt32 };
enum class CheckpointType : uint8_t { kRankZero, kAllRanks };
enum class CheckpointMode : uint8_t { kDefault, kSubset };
enum class WriteMode : uint8_t { kSync, kAsync, kLocalFlush };
enum class CheckpointLayout : uint8_t { kTorch, kTensorflow };

template <size_t kCount>
using Words = std::array<std::string_view, kCount>;

template <typename Enum>
inline constexpr Words<0> kWords = {};
template <>
inline constexpr Words<2> kWords<Framework> = {"pytorch", "tensorflow"};
template <>
inline constexpr Words<1> kWords<Storage> = {"local_fs"};
template <>
inline constexpr Words<16> kWords<DatasetFormat> = {
    "tfrecord", "hdf5",     "csv",  "tsv",      "json",           "jsonl",
    "npz",      "npy",      "jpeg", "png",      "indexed_binary", "mmap_indexed_binary",
    "parquet",  "megatron", "raw",  "synthetic"};
template <>
inline constexpr Words<8> kWords<Compression> = {"none", "gzip", "lzf",    "bz2",
                                                 "zip",  "xz",   "snappy", "zstd"};
template <>
inline constexpr Words<5> kWords<ContentKind> = {"random", "photo", "physics", "text", "zero"};
template <>
inline constexpr Words<2> kWords<ParquetReads> = {"row_group", "file"};
template <>
inline constexpr Words<4> kWords<DataLoader> = {"native", "pytorch", "tensorflow", "dali"};
template <>
inline constexpr Words<3> kWords<Shuffle> = {"off", "seed", "random"};
template <>
inline constexpr Words<2> kWords<ReadType> = {"on_demand", "memory"};
template <>
inline constexpr Words<2> kWords<FileAccess> = {"multi", "shared"};
template <>
inline constexpr Words<2> kWords<OnError> = {"fail", "skip"};
template <>
inline constexpr Words<7> kWords<TensorType> = {"fp16", "bf16",  "fp32", "fp64",
                                                "int8", "uint8", "int32"};
template <>
inline constexpr Words<2> kWords<CheckpointType> = {"rank_zero", "all_ranks"};
template <>
inline constexpr Words<2> kWords<CheckpointMode> = {"default", "subset"};
template <>
inline constexpr Words<3> kWords<WriteMode> = {"sync", "async", "local_flush"};
template <>
inline constexpr Words<2> kWords<CheckpointLayout> = {"torch", "tensorflow"};

template <typename Enum>
concept Choice = !kWords<Enum>.empty();

template <Choice Enum>
constexpr std::string_view name_of(Enum value) {
  return kWords<Enum>[static_cast<size_t>(value)];
}

// Nullopt if no value has this name.
template <Choice Enum>
constexpr std::optional<Enum> named(std::string_view name) {
  const auto found = std::ranges::find(kWords<Enum>, name);
  if (found == kWords<Enum>.end()) return std::nullopt;
  return static_cast<Enum>(found - kWords<Enum>.begin());
}

// The loader that a framework brings.
constexpr DataLoader loader_of(Framework framework) {
  return framework == Framework::kPytorch ? DataLoader::kPytorch : DataLoader::kTensorflow;
}

}  // namespace millrace::bench
