#include "store/buffer/model.h"

#include <utility>

namespace millrace::store {
namespace {

using wire::BufferRecordKind;

template <typename Key>
void count_down(std::map<Key, size_t>& counts, const Key& key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

}  // namespace

void BufferModel::queue(JournalRecord record) {
  if (!record.from.empty()) ++queued_paths_[record.from];
  if (!record.to.empty()) ++queued_paths_[record.to];
  if (record.id != 0) ++queued_ids_[record.id];
  if (record.kind == BufferRecordKind::kOpened) ++queued_opens_[record.id];
  queue_.push_back(std::move(record));
}

const BufferedFile* BufferModel::find(uint64_t id) const {
  const auto found = files_.find(id);
  return found == files_.end() ? nullptr : &found->second;
}

uint64_t BufferModel::id_of(const std::string& path) const {
  const auto found = names_.find(path);
  return found == names_.end() ? 0 : found->second;
}

// Gives the name to a file, or to none (0). A file that had it has no name then.
void BufferModel::name(const std::string& path, uint64_t id) {
  const uint64_t before = id_of(path);
  if (before != 0 && before != id) {
    files_[before].path.clear();
    touched_files_.push_back(before);
  }
  names_[path] = id;
  if (id != 0) files_[id].path = path;
  touched_names_.push_back(path);
}

void BufferModel::advance(bool is_saved) {
  const JournalRecord record = std::move(queue_.front());
  queue_.pop_front();
  if (!record.from.empty()) count_down(queued_paths_, record.from);
  if (!record.to.empty()) count_down(queued_paths_, record.to);
  if (record.id != 0) count_down(queued_ids_, record.id);
  if (record.kind == BufferRecordKind::kOpened) count_down(queued_opens_, record.id);
  switch (record.kind) {
    case BufferRecordKind::kOpened:
      // The same file again, perhaps renamed since it was found: it keeps its name.
      if (const BufferedFile* known = find(record.id); known == nullptr) {
        name(record.from, record.id);
      }
      files_[record.id].is_closed = false;
      files_[record.id].is_saved = false;
      break;
    case BufferRecordKind::kClosed:
      if (const auto found = files_.find(record.id); found != files_.end()) {
        found->second.is_closed = true;
        found->second.is_saved = is_saved;
      }
      break;
    case BufferRecordKind::kSynced:
      if (const auto found = files_.find(record.id); found != files_.end()) {
        found->second.synced_bytes = record.value;
      }
      break;
    case BufferRecordKind::kRenamed: {
      const uint64_t id = id_of(record.from);
      if (id == 0) break;  // its record was damaged
      name(record.to, id);
      names_[record.from] = 0;
      touched_names_.push_back(record.from);
      break;
    }
    case BufferRecordKind::kRemoved:
      name(record.from, 0);
      break;
    case BufferRecordKind::kAttributes:
      break;
  }
  if (record.id != 0) touched_files_.push_back(record.id);
}

BufferModel::Settled BufferModel::take_settled() {
  Settled settled;
  for (const uint64_t id : std::exchange(touched_files_, {})) {
    const auto found = files_.find(id);
    if (found == files_.end() || queued_ids_.contains(id)) continue;
    if (!found->second.path.empty()) {
      touched_names_.push_back(found->second.path);
    } else if (found->second.is_closed) {
      settled.files.push_back(id);
      files_.erase(found);
    }
  }
  for (const std::string& path : std::exchange(touched_names_, {})) {
    const auto found = names_.find(path);
    if (found == names_.end() || queued_paths_.contains(path)) continue;
    if (const uint64_t id = found->second; id != 0) {
      if (!files_[id].is_saved || queued_ids_.contains(id)) continue;
      settled.files.push_back(id);
      files_.erase(id);
    }
    settled.names.push_back(path);
    names_.erase(found);
  }
  return settled;
}

}  // namespace millrace::store
