// BufferJournal: the queue of `--buffer`, as the drainer and the command line read it.
// docs/formats/store-buffer.md.
//
// Programs append to the journal at any time; whoever reads or changes it holds its lock. A reader
// that finds damage goes on at the next valid record, and says how many bytes it has skipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"
#include "wire/store_buffer.h"

namespace millrace::store {

struct BufferOwner {
  std::string upper;  // the upper directory
  std::string root;
  std::string job;
};

struct JournalRecord {
  wire::BufferRecordKind kind = {};
  uint64_t id = 0;
  uint64_t value = 0;
  uint64_t time_ns = 0;
  std::string from;
  std::string to;
  uint64_t end = 0;  // the offset after it
};

class BufferJournal {
 public:
  // Creates the directory and everything in it. Fails if it exists.
  static Result<BufferJournal> create(const std::filesystem::path& directory,
                                      const BufferOwner& owner);
  static Result<BufferJournal> open(const std::filesystem::path& directory);

  class Lock {
   public:
    static Result<Lock> take(const BufferJournal& journal);
    ~Lock();
    Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Lock& operator=(Lock&&) = delete;

   private:
    explicit Lock(int fd) : fd_(fd) {}

    int fd_;  // of the journal; negative: nothing is locked
  };

  const std::filesystem::path& directory() const { return directory_; }
  const BufferOwner& owner() const { return owner_; }
  bool is_of_this_boot() const { return is_of_this_boot_; }
  uint64_t header_bytes() const { return header_bytes_; }
  uint64_t damaged_bytes() const { return damaged_bytes_; }  // skipped so far, without a torn end

  // These need a Lock.
  Result<std::vector<JournalRecord>> read_new();
  Status append_closed(uint64_t id);
  Result<uint64_t> size_bytes() const { return file_.size_bytes(); }
  Status truncate();

  Result<wire::BufferProgress> read_progress() const;
  // Also sets the time. `durable`: on return, it is on the device.
  Status write_progress(wire::BufferProgress& progress, bool durable) const;

 private:
  BufferJournal() = default;

  std::filesystem::path directory_;
  File file_;
  File progress_;
  BufferOwner owner_;
  bool is_of_this_boot_ = false;
  uint64_t header_bytes_ = 0;
  uint64_t read_bytes_ = 0;
  uint64_t damaged_bytes_ = 0;
};

// Parses the records in `bytes`; `*used` becomes the end of the last one. Bytes that belong to no
// record are skipped if a record follows, and added to `*damaged`.
std::vector<JournalRecord> parse_journal(std::string_view bytes, uint64_t* used, uint64_t* damaged);

std::filesystem::path data_path(const std::filesystem::path& directory, uint64_t id);

}  // namespace millrace::store
