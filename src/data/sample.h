// The basic terms of training data: which sample, in which epoch, and where its bytes are.
#pragma once

#include <cstdint>

namespace millrace::data {

enum class SampleId : uint64_t {};   // index into a source, 0-based
enum class Epoch : uint64_t {};      // 0-based
enum class FileIndex : uint32_t {};  // into a Dataset's files, 0-based

constexpr uint64_t index_of(SampleId id) { return static_cast<uint64_t>(id); }
constexpr uint64_t number_of(Epoch epoch) { return static_cast<uint64_t>(epoch); }
constexpr uint32_t index_of(FileIndex file) { return static_cast<uint32_t>(file); }

// Where the bytes of a sample are. A whole file needs no length, so that a dataset of a million
// files does not stat each of them.
struct Extent {
  static constexpr uint64_t kToTheEnd = ~uint64_t{0};

  FileIndex file{};
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = kToTheEnd;

  bool operator==(const Extent&) const = default;
};

}  // namespace millrace::data
