#include "store/buffer/contents.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/text/text.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using wire::BufferProgress;
using wire::BufferRecordKind;

constexpr char kMayBeIncomplete[] =
    "the machine was restarted before it was synced, so it may be incomplete; it is not copied";

// Not flock: that cannot be asked for without taking it.
bool is_drained(const fs::path& directory) {
  const auto lock = File::open(directory / wire::kBufferDrainLock, O_RDWR | O_NOFOLLOW);
  struct flock wanted = {};
  wanted.l_type = F_WRLCK;
  return lock.ok() && ::fcntl(lock->fd(), F_OFD_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK;
}

std::vector<uint64_t> ids_in(const fs::path& directory) {
  std::vector<uint64_t> ids;
  std::error_code error;
  for (fs::directory_iterator at(directory / wire::kBufferData, error), end; !error && at != end;
       at.increment(error)) {
    ids.push_back(wire::parse_buffer_target(std::string(wire::kBufferDataPrefix) +
                                            at->path().filename().string()));
  }
  return ids;
}

// Why the file is not in the upper directory; empty: it is, or a program has removed it.
std::string reason_of(const BufferedFile& file, bool is_queued) {
  if (file.path.empty() || (file.is_saved && !is_queued)) return {};
  return is_queued && file.is_closed ? "waits in the queue" : kStillWritten;
}

std::string text_of_reason(const BufferProgress& progress) {
  if (progress.error == 0) return {};
  return {progress.reason, ::strnlen(progress.reason, sizeof(progress.reason))};
}

}  // namespace

Writers take_lease(const File& file) {
  // The default, SIGIO, would end this process when a program tries.
  ::fcntl(file.fd(), F_SETSIG, SIGURG);
  if (::fcntl(file.fd(), F_SETLEASE, F_RDLCK) == 0) return Writers::kNone;
  return errno == EAGAIN ? Writers::kSome : Writers::kUnknown;
}

bool may_copy(const BufferJournal& journal, const fs::path& data, const BufferedFile& file) {
  struct stat info = {};
  if (journal.is_of_this_boot() || ::lstat(data.c_str(), &info) != 0) return true;
  return file.synced_bytes == static_cast<uint64_t>(info.st_size);
}

Result<LoadedBuffer> load_buffer(const fs::path& directory) {
  ASSIGN_OR_RETURN(BufferJournal journal, BufferJournal::open(directory));
  ASSIGN_OR_RETURN(const BufferJournal::Lock lock, BufferJournal::Lock::take(journal));
  ASSIGN_OR_RETURN(const BufferProgress progress, journal.read_progress());
  ASSIGN_OR_RETURN(std::vector<JournalRecord> records, journal.read_new());
  BufferModel model;
  std::vector<bool> executed;
  for (JournalRecord& record : records) {
    executed.push_back(record.end <= progress.offset && record.time_ns <= progress.time_ns);
    model.queue(std::move(record));
  }
  bool has_skipped = false;
  for (size_t i = 0; i < executed.size() && executed[i]; ++i) {
    const JournalRecord& first = model.first();
    const BufferedFile* file = model.find(first.id);
    const bool has_name = file != nullptr && !file->path.empty();
    const bool is_saved = has_name && may_copy(journal, data_path(directory, first.id), *file);
    if (first.kind == BufferRecordKind::kClosed && has_name && !is_saved) has_skipped = true;
    model.advance(is_saved);
  }
  return LoadedBuffer{.journal = std::move(journal),
                      .progress = progress,
                      .model = std::move(model),
                      .has_skipped = has_skipped};
}

Status close_ended(BufferJournal& journal, const BufferModel& model, bool is_last) {
  for (const auto& [id, file] : model.files()) {
    if (file.is_closed || model.is_queued(id)) continue;
    const auto data = File::open(data_path(journal.directory(), id), O_RDONLY | O_NOFOLLOW);
    const Writers writers = data.ok() ? take_lease(*data) : Writers::kNone;
    const bool has_ended = writers == Writers::kNone || (is_last && writers == Writers::kUnknown);
    if (has_ended) RETURN_IF_ERROR(journal.append_closed(id));
  }
  return {};
}

// With the names that the files will have when everything queued is executed.
std::vector<KeptFile> list_kept(const BufferJournal& journal, BufferModel model,
                                const BufferProgress& progress) {
  const JournalRecord first = model.has_queued() ? model.first() : JournalRecord();
  const BufferedFile* first_file = model.find(first.id);
  const KeptFile stopped{.path = first_file != nullptr ? first_file->path : first.from,
                         .reason = model.has_queued() ? text_of_reason(progress) : ""};
  std::set<uint64_t> queued;
  while (model.has_queued()) {
    const JournalRecord& next = model.first();
    queued.insert(next.id != 0 ? next.id : model.id_of(next.from));
    model.advance(false);
  }
  std::vector<KeptFile> kept;
  for (const uint64_t id : ids_in(journal.directory())) {
    struct stat info = {};
    KeptFile file{.data = data_path(journal.directory(), id)};
    if (::lstat(file.data.c_str(), &info) != 0) continue;
    file.size_bytes = static_cast<uint64_t>(info.st_size);
    if (const BufferedFile* known = model.find(id); known == nullptr) {
      file.reason = "no record of the journal names it";
    } else {
      file.path = known->path;
      file.reason = reason_of(*known, queued.contains(id));
      if (file.reason.empty()) continue;
      if (!may_copy(journal, file.data, *known)) file.reason = kMayBeIncomplete;
    }
    kept.push_back(std::move(file));
  }
  if (journal.damaged_bytes() > 0) {
    kept.push_back({.data = journal.directory() / wire::kBufferJournal,
                    .reason = fmt::format("{} bytes of the journal are damaged: a rename or a "
                                          "removal may be missing in the upper directory",
                                          journal.damaged_bytes())});
  }
  if (stopped.reason.empty()) return kept;
  const fs::path data = data_path(journal.directory(), first.id);
  const auto found = std::find_if(kept.begin(), kept.end(),
                                  [&](const KeptFile& file) { return file.data == data; });
  if (found == kept.end()) return kept.insert(kept.begin(), stopped), kept;
  found->reason = stopped.reason;
  std::rotate(kept.begin(), found, found + 1);
  return kept;
}

std::string kept_text(const KeptFile& file) {
  return fmt::format("not saved: {}: {}; it is kept in {}",
                     printable(file.path.empty() ? "a file without a name" : file.path),
                     file.reason, printable(file.data.string()));
}

Result<BufferContents> read_buffer(const fs::path& directory) {
  BufferContents found{.directory = directory, .is_drained = is_drained(directory)};
  ASSIGN_OR_RETURN(LoadedBuffer loaded, load_buffer(directory));
  found.owner = loaded.journal.owner();
  found.has_queued = loaded.model.has_queued();
  found.files = list_kept(loaded.journal, std::move(loaded.model), loaded.progress);
  for (const KeptFile& file : found.files) found.size_bytes += file.size_bytes;
  return found;
}

std::vector<BufferContents> find_left_buffers(const fs::path& parent) {
  std::vector<BufferContents> left;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const fs::path directory = at->path();
    const bool is_buffer = directory.filename().string().starts_with(wire::kStoreBufferPrefix);
    if (!is_buffer || is_drained(directory)) continue;
    auto found = read_buffer(directory);
    if (!found.ok()) {
      const std::string reason = found.error().message();
      found =
          BufferContents{.directory = directory, .files = {{.data = directory, .reason = reason}}};
    }
    left.push_back(*std::move(found));
  }
  return left;
}

Result<FlushTicket> begin_flush(const fs::path& directory) {
  ASSIGN_OR_RETURN(LoadedBuffer loaded, load_buffer(directory));
  ASSIGN_OR_RETURN(const BufferJournal::Lock lock, BufferJournal::Lock::take(loaded.journal));
  ASSIGN_OR_RETURN(const BufferProgress progress, loaded.journal.read_progress());
  // Otherwise the drainer has emptied the queue a moment ago.
  if (progress.generation == loaded.progress.generation) {
    RETURN_IF_ERROR(close_ended(loaded.journal, loaded.model, false));
  }
  ASSIGN_OR_RETURN(const uint64_t end, loaded.journal.size_bytes());
  return FlushTicket{.generation = progress.generation, .end = end};
}

wire::FlushProgress look_at_flush(const fs::path& directory, FlushTicket ticket) {
  const auto journal = BufferJournal::open(directory);
  std::error_code error;
  if (!journal.ok() && !fs::exists(directory, error)) return wire::FlushProgress::kDurable;
  const auto progress = journal.ok() ? journal->read_progress() : journal.error();
  if (!progress.ok()) return wire::FlushProgress::kFailed;
  if (progress->generation != ticket.generation || progress->offset >= ticket.end) {
    return wire::FlushProgress::kDurable;
  }
  return progress->error != 0 ? wire::FlushProgress::kFailed : wire::FlushProgress::kRunning;
}

}  // namespace millrace::store
