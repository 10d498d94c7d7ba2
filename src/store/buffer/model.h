// BufferModel: what the journal of a buffer means: which file has which name, and what is left to
// do. No I/O.
//
// Records are queued in the order of the journal. The drainer executes the first one and then
// advances. A name or a file that no queued record mentions is settled: what the buffer keeps of it
// can be removed as soon as it is saved.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/buffer/journal.h"

namespace millrace::store {

struct BufferedFile {
  std::string path;  // empty: it has no name any more
  bool is_closed = false;
  bool is_saved = false;
  std::optional<uint64_t> synced_bytes;  // by the last fsync
};

class BufferModel {
 public:
  void queue(JournalRecord record);

  bool has_queued() const { return !queue_.empty(); }
  const JournalRecord& first() const { return queue_.front(); }
  const JournalRecord& last() const { return queue_.back(); }

  // Applies the first record and drops it. `is_saved`: the file of a kClosed record is durable in
  // the upper directory now. What the record concerns is added to the settled candidates.
  void advance(bool is_saved);

  const std::map<uint64_t, BufferedFile>& files() const { return files_; }
  const BufferedFile* find(uint64_t id) const;
  // 0: no file has the name.
  uint64_t id_of(const std::string& path) const;
  bool is_queued(uint64_t id) const { return queued_ids_.contains(id); }
  // Whether a program opened the file again after the first record.
  bool is_opened_later(uint64_t id) const { return queued_opens_.contains(id); }

  // Names and files that the buffer need not keep, among those that advance() concerned since the
  // last call. The model forgets them.
  struct Settled {
    std::vector<std::string> names;
    std::vector<uint64_t> files;
  };
  Settled take_settled();

  bool is_empty() const { return queue_.empty() && files_.empty() && names_.empty(); }

 private:
  void name(const std::string& path, uint64_t id);

  std::deque<JournalRecord> queue_;
  std::map<std::string, size_t> queued_paths_;
  std::map<uint64_t, size_t> queued_ids_;
  std::map<uint64_t, size_t> queued_opens_;
  std::map<std::string, uint64_t> names_;  // 0: removed
  std::map<uint64_t, BufferedFile> files_;
  std::vector<std::string> touched_names_;
  std::vector<uint64_t> touched_files_;
};

}  // namespace millrace::store
