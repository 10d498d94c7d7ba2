// copy_durably: copies a file to the shared file system so that it appears complete, or not at all.
//
// The bytes go to a temporary name in the directory of the target, are synced, and are read back
// and compared with the checksum of what was read from the source. Only then does it get its name,
// and the directory is synced as well. Memory is bounded. A copy that fails leaves nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace::store {

struct DurableTarget {
  std::filesystem::path path;
  std::filesystem::path top;  // directories below it are made if they are missing
  uint64_t token = 0;         // of the temporary name; another one is taken if that name exists
  // Gets the token of the temporary name before the file is created: if the process is killed, the
  // file is left.
  std::function<void(uint64_t token)> on_token;
  std::function<void()> on_block;      // between blocks
  std::function<Status()> check_last;  // before the rename: whether the source is still the same
};

// Copies content, mode and time of modification. Replaces what has the name.
Status copy_durably(const File& source, const DurableTarget& target);

// Calls use(offset, block) for each block of the first `size_bytes` of a file.
template <typename Use>
Status for_blocks(const File& file, uint64_t size_bytes, size_t block_bytes, Use use) {
  std::vector<std::byte> buffer(std::clamp<uint64_t>(size_bytes, 1, block_bytes));
  for (uint64_t at = 0; at < size_bytes;) {
    const std::span block(buffer.data(), std::min<uint64_t>(buffer.size(), size_bytes - at));
    RETURN_IF_ERROR(file.read_exactly_at(at, block));
    RETURN_IF_ERROR(use(at, ByteView(block)));
    at += block.size();
  }
  return {};
}

bool has_same_content(const std::filesystem::path& path, const std::filesystem::path& other);

std::filesystem::path temporary_copy(const std::filesystem::path& target, uint64_t token);

}  // namespace millrace::store
