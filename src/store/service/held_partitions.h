// HeldPartitions: the partitions that belong to this node, for its own programs and for its peers.
//
// A thread copies them to the storage of the node, in order, as far as the budget allows; what is
// not there (yet) is read from the pack. So the service answers from its first moment on.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/base.h"
#include "base/io/mapped_file.h"
#include "base/result.h"
#include "store/pack/pack.h"

namespace millrace::store {

struct HeldPartitionsOptions {
  std::filesystem::path directory;  // where copies go; it is created
  std::vector<uint32_t> numbers;    // of the partitions
  uint64_t budget_bytes = 0;
  std::function<void(const std::string& line)> log;  // may be empty
};

class HeldPartitions {
 public:
  // The reader must live longer.
  HeldPartitions(const PackReader& reader, HeldPartitionsOptions options);
  ~HeldPartitions();
  HeldPartitions(const HeldPartitions&) = delete;
  HeldPartitions& operator=(const HeldPartitions&) = delete;

  // What the copies will take, known at once: less than the budget. 0 if the pack is on the same
  // storage already.
  uint64_t reserved_bytes() const { return reserved_bytes_; }

  Status start();

  bool holds(uint32_t number) const { return is_held_[number]; }

  // The bytes of a file as they are stored, valid as long as this object. REQUIRES: it is a file
  Result<ByteView> packed(uint32_t index) const;

 private:
  void copy_all();
  Status copy(uint32_t number);

  const PackReader& reader_;
  const HeldPartitionsOptions options_;
  std::vector<bool> is_held_;
  std::vector<uint32_t> to_copy_;
  uint64_t reserved_bytes_ = 0;
  std::vector<std::unique_ptr<MappedFile>> files_;         // by partition; owned
  std::vector<std::atomic<const MappedFile*>> published_;  // by partition; null: not copied
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace millrace::store
