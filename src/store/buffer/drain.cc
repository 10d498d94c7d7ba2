#include "store/buffer/drain.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "base/concurrency/thread.h"
#include "base/io/directory.h"
#include "base/text/text.h"
#include "store/buffer/directories.h"
#include "store/buffer/durable_file.h"
#include "store/buffer/model.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using wire::BufferProgress;
using wire::BufferRecordKind;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr unsigned kLastTries = 3;             // at the end of a job
constexpr milliseconds kLastPause{500};        // between them
constexpr milliseconds kWrittenRetryMax{200};  // for a file that is still written
constexpr milliseconds kPollEvery{50};         // if there is no inotify

uint64_t ns_of(const timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

struct stat stat_of(const File& file) {
  struct stat info = {};
  ::fstat(file.fd(), &info);
  return info;
}

bool is_same_state(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

Status remove_durably(const fs::path& path) {
  if (::unlink(path.c_str()) == 0) return sync_directory(path.parent_path());
  if (errno == ENOENT || errno == ENOTDIR) return {};
  return fail_os(errno, "cannot remove it").within(printable(path.string()));
}

int errno_of(const Error& error) {
  if (error.code() == Errc::kExhausted) return ENOSPC;
  return error.code() == Errc::kPermission ? EACCES : EIO;
}

}  // namespace

// Only the thread uses what is in the base while it runs.
struct BufferDrain::Impl : LoadedBuffer {
  Impl(DrainOptions given, LoadedBuffer loaded, File lock)
      : LoadedBuffer(std::move(loaded)),
        options(std::move(given)),
        directory(options.directory),
        upper(journal.owner().upper),
        drain_lock(std::move(lock)),
        directories(options.directory, upper) {}

  ~Impl() { end_thread(is_stopping); }

  struct Outcome {
    Status status;
    bool is_saved = false;    // the file of a kClosed record
    bool is_written = false;  // not a failure: a program still writes the file
  };

  // The thread.
  void run();
  Status read_journal();
  Status read_locked();  // needs the journal's lock
  void note_directories();
  Status scan(bool is_last);
  bool is_left() const { return model.first().time_ns <= left_until_ns; }
  bool is_newer(const fs::path& path) const;
  Outcome execute();
  Outcome save(uint64_t id, const fs::path& target);
  Outcome rename_saved(uint64_t id, const JournalRecord& record);
  Status copy_attributes(uint64_t id, const fs::path& target);
  Status advance(bool is_saved);
  Status settle();
  void note_failure(const Outcome& outcome);
  void pause(milliseconds time, bool until_change);

  // Others.
  void end_thread(std::atomic<bool>& how) {
    how = true;
    ::eventfd_write(wake_event.fd(), 1);
    if (thread.joinable()) thread.join();
  }
  Status remove_buffer();

  const DrainOptions options;
  const fs::path directory;
  const fs::path upper;
  File drain_lock;
  File wake_event;
  File changes;  // inotify; closed if the system has none left
  std::thread thread;
  std::atomic<bool> is_stopping{false};
  std::atomic<bool> is_finishing{false};

  // Used only by the thread while it runs.
  BufferDirectories directories;
  std::set<std::string> unnoted;  // paths of records, not yet in `directories`
  bool is_settled = true;         // otherwise settle() has failed
  uint64_t failed_blocks = 0;     // how far the copy of the first record came before it failed
  uint64_t left_until_ns = 0;     // when the process ended that drained this buffer before
  std::set<fs::path> changed_here;
};

void BufferDrain::Impl::run() {
  unsigned failures = 0;
  unsigned last_tries = 0;
  auto next_scan = Clock::now() + options.scan_every;
  while (!is_stopping) {
    const bool is_last = is_finishing;
    Outcome outcome{.status = read_journal()};
    if (outcome.status.ok() && (is_last || Clock::now() >= next_scan)) {
      outcome.status = scan(is_last);
      next_scan = Clock::now() + options.scan_every;
    }
    if (outcome.status.ok() && !is_settled) outcome.status = settle();
    const bool is_idle = outcome.status.ok() && !model.has_queued();
    if (is_idle && is_last) return;
    if (outcome.status.ok() && !is_idle) {
      outcome = execute();
      if (outcome.status.ok()) outcome.status = advance(outcome.is_saved);
    }
    if (outcome.status.ok()) {
      failures = 0;
      if (is_idle) {
        pause(std::chrono::duration_cast<milliseconds>(next_scan - Clock::now()), true);
      }
      continue;
    }
    note_failure(outcome);
    if (is_last && ++last_tries == kLastTries) return;
    failures = std::min(failures + 1, 20u);
    const milliseconds longest = outcome.is_written ? kWrittenRetryMax : options.retry_after_max;
    pause(is_last ? kLastPause : std::min(longest, milliseconds(10) * (1u << failures)), false);
  }
}

Status BufferDrain::Impl::read_journal() {
  Status read = [&]() -> Status {
    ASSIGN_OR_RETURN(const BufferJournal::Lock lock, BufferJournal::Lock::take(journal));
    return read_locked();
  }();
  note_directories();
  return read;
}

// Without the lock: programs need not wait for the upper directory.
void BufferDrain::Impl::note_directories() {
  for (const std::string& path : std::exchange(unnoted, {})) directories.note(path);
}

Status BufferDrain::Impl::read_locked() {
  ASSIGN_OR_RETURN(std::vector<JournalRecord> records, journal.read_new());
  for (JournalRecord& record : records) {
    unnoted.insert({record.from, record.to});
    model.queue(std::move(record));
  }
  return {};
}

// Files whose process was killed, or ended without closing them.
Status BufferDrain::Impl::scan(bool is_last) {
  ASSIGN_OR_RETURN(const BufferJournal::Lock lock, BufferJournal::Lock::take(journal));
  RETURN_IF_ERROR(close_ended(journal, model, is_last));
  return read_locked();
}

// Whether somebody has changed a name since the process ended that drained this buffer before. What
// it left is old then: it must not replace, rename or remove what is new.
bool BufferDrain::Impl::is_newer(const fs::path& path) const {
  struct stat info = {};
  return is_left() && ::lstat(path.c_str(), &info) == 0 && ns_of(info.st_ctim) > left_until_ns &&
         !changed_here.contains(path);
}

BufferDrain::Impl::Outcome BufferDrain::Impl::execute() {
  const JournalRecord& record = model.first();
  const bool is_rename = record.kind == BufferRecordKind::kRenamed;
  const uint64_t id = is_rename ? model.id_of(record.from) : record.id;
  const BufferedFile* known = model.find(id);
  const BufferedFile file = known != nullptr ? *known : BufferedFile();
  const fs::path target = upper / file.path;
  for (const fs::path& path : {upper / record.from, upper / record.to, target}) {
    if (path == upper / "" || !is_newer(path)) continue;
    // Copied at the last moment, before that could be noted.
    if (id != 0 && has_same_content(data_path(directory, id), path)) continue;
    return {.status = fail(Errc::kAlreadyExists,
                           "it was changed after the job ended; move it away, or remove the buffer")
                          .within(printable(path.string()))};
  }
  for (const std::string& path : {record.from, record.to, file.path}) {
    if (!is_left() || directories.is_same(path)) continue;
    return {.status = fail(Errc::kAlreadyExists,
                           "its directory is another one than that of the job; move it away, or "
                           "remove the buffer")
                          .within(printable((upper / path).string()))};
  }
  changed_here.insert({upper / record.from, upper / record.to, target});
  switch (record.kind) {
    case BufferRecordKind::kOpened:
    case BufferRecordKind::kSynced:
      return {};
    case BufferRecordKind::kClosed:
      // Bytes that were written later must not come before what happened in between.
      if (file.path.empty() || model.is_opened_later(id)) return {};
      if (may_copy(journal, data_path(directory, id), file)) return save(id, target);
      has_skipped = true;
      return {};
    case BufferRecordKind::kAttributes:
      if (!file.is_saved || file.path.empty()) return {};
      return {.status = copy_attributes(id, target)};
    case BufferRecordKind::kRenamed:
      if (id == 0) return {};
      if (file.is_saved) return rename_saved(id, record);
      [[fallthrough]];  // an older file of that name
    case BufferRecordKind::kRemoved:
      // The file that was to replace it may be the one that was skipped.
      if (has_skipped) return {};
      return {.status = remove_durably(upper / record.from)};
  }
  return {};
}

BufferDrain::Impl::Outcome BufferDrain::Impl::save(uint64_t id, const fs::path& target) {
  if (progress.copy_token != 0) {  // a process that was killed while it copied this file
    ::unlink(temporary_copy(target, progress.copy_token).c_str());
    progress.copy_token = 0;
  }
  auto source = File::open(data_path(directory, id), O_RDONLY | O_NOFOLLOW);
  if (!source.ok()) {
    const bool is_gone = source.error().code() == Errc::kNotFound;
    return {.status = is_gone ? Status() : std::move(source).error(), .is_saved = is_gone};
  }
  const Writers writers = take_lease(*source);
  if (writers == Writers::kSome) {
    return {.status = fail(Errc::kTimeout, "{}", kStillWritten), .is_written = true};
  }
  const struct stat before = stat_of(*source);
  // Who waits for the queue must see that a copy fails again and again. So a try counts as progress
  // only when it is further than those before it.
  uint64_t blocks = 0;
  const auto beat = [&] {
    if (++blocks <= failed_blocks) return;
    ++progress.beat;
    progress.error = 0;
    [[maybe_unused]] const Status written = journal.write_progress(progress, false);
  };
  bool is_written = false;
  const auto is_same = [&]() -> Status {
    const bool has_lease =
        writers == Writers::kUnknown || ::fcntl(source->fd(), F_GETLEASE) == F_RDLCK;
    if (has_lease && is_same_state(before, stat_of(*source))) return {};
    is_written = true;
    return fail(Errc::kIo, "it was changed while it was copied");
  };
  const auto note_token = [&](uint64_t token) {
    progress.copy_token = token;
    [[maybe_unused]] const Status written = journal.write_progress(progress, true);
  };
  Status copied = copy_durably(*source, {.path = target,
                                         .top = upper,
                                         .token = id,
                                         .on_token = note_token,
                                         .on_block = beat,
                                         .check_last = is_same});
  progress.copy_token = 0;
  const bool is_saved = copied.ok();
  failed_blocks = is_saved ? 0 : std::max(failed_blocks, blocks);
  return {.status = std::move(copied), .is_saved = is_saved, .is_written = is_written};
}

BufferDrain::Impl::Outcome BufferDrain::Impl::rename_saved(uint64_t id,
                                                           const JournalRecord& record) {
  const fs::path from = upper / record.from;
  const fs::path to = upper / record.to;
  if (::rename(from.c_str(), to.c_str()) == 0) {
    Status synced = sync_directory(to.parent_path());
    if (synced.ok() && from.parent_path() != to.parent_path()) {
      synced = sync_directory(from.parent_path());
    }
    return {.status = std::move(synced)};
  }
  const int error = errno;
  if (error != EXDEV && error != ENOENT) {
    return {.status = fail_os(error, "cannot rename it").within(printable(from.string()))};
  }
  // Another file system, or somebody has moved the copy away: copy it again.
  Outcome saved = save(id, to);
  if (saved.status.ok()) saved.status = remove_durably(from);
  return saved;
}

Status BufferDrain::Impl::copy_attributes(uint64_t id, const fs::path& target) {
  struct stat info = {};
  if (::lstat(data_path(directory, id).c_str(), &info) != 0) return {};
  ASSIGN_OR_RETURN(const File file, File::open(target, O_RDONLY | O_NOFOLLOW));
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, info.st_mtim};
  if (::fchmod(file.fd(), info.st_mode & 07777) != 0 || ::futimens(file.fd(), times) != 0 ||
      ::fsync(file.fd()) != 0) {
    return fail_os(errno, "cannot set its attributes").within(printable(target.string()));
  }
  return {};
}

// After the first record was executed. First it is noted that it was, then what the buffer need not
// keep is removed: otherwise another process could repeat a removal after the name was used again.
Status BufferDrain::Impl::advance(bool is_saved) {
  progress.offset = model.first().end;
  progress.time_ns = std::max(progress.time_ns, model.first().time_ns);
  progress.error = 0;
  ++progress.beat;
  failed_blocks = 0;
  const bool has_effect = model.first().kind != BufferRecordKind::kOpened &&
                          model.first().kind != BufferRecordKind::kSynced;
  RETURN_IF_ERROR(journal.write_progress(progress, has_effect));
  model.advance(is_saved);
  return settle();
}

// If it fails, run() tries again.
Status BufferDrain::Impl::settle() {
  is_settled = false;
  ASSIGN_OR_RETURN(const BufferJournal::Lock lock, BufferJournal::Lock::take(journal));
  RETURN_IF_ERROR(read_locked());
  const BufferModel::Settled settled = model.take_settled();
  const fs::path names = directory / wire::kBufferNames;
  for (const std::string& name : settled.names) {
    fs::path path = names / name;
    ::unlink(path.c_str());
    for (path = path.parent_path(); path != names && ::rmdir(path.c_str()) == 0;) {
      path = path.parent_path();
    }
  }
  for (const uint64_t id : settled.files) {
    ::unlink(data_path(directory, id).c_str());
  }
  if (model.is_empty() && journal.damaged_bytes() == 0) {
    RETURN_IF_ERROR(journal.truncate());
    ++progress.generation;
    progress.offset = journal.header_bytes();
    progress.error = 0;
    RETURN_IF_ERROR(journal.write_progress(progress, true));
  }
  is_settled = true;
  return {};
}

void BufferDrain::Impl::note_failure(const Outcome& outcome) {
  const std::string reason = outcome.status.error().message();
  const bool is_known = progress.error != 0 && reason.starts_with(progress.reason);
  progress.error =
      static_cast<uint32_t>(outcome.is_written ? EBUSY : errno_of(outcome.status.error()));
  std::memset(progress.reason, 0, sizeof(progress.reason));
  reason.copy(progress.reason, sizeof(progress.reason) - 1);
  [[maybe_unused]] const Status written = journal.write_progress(progress, false);
  if (is_known) return;
  if (options.log && !outcome.is_written) {
    options.log(fmt::format("buffer: {}; it is kept in {} and tried again", reason,
                            printable(directory.string())));
  }
}

// Returns early at wake(), and if `until_change`, when the journal changes.
void BufferDrain::Impl::pause(milliseconds time, bool until_change) {
  if (until_change && !changes.is_open()) time = std::min(time, kPollEvery);
  pollfd polled[2] = {{wake_event.fd(), POLLIN, 0}, {changes.fd(), POLLIN, 0}};
  const nfds_t count = until_change && changes.is_open() ? 2 : 1;
  if (::poll(polled, count, static_cast<int>(std::max<int64_t>(time.count(), 0))) <= 0) return;
  char events[4096];
  uint64_t value = 0;
  if ((polled[0].revents & POLLIN) != 0) ::eventfd_read(wake_event.fd(), &value);
  if (count == 2 && (polled[1].revents & POLLIN) != 0) {
    [[maybe_unused]] const auto got = ::read(changes.fd(), events, sizeof(events));
  }
}

Status BufferDrain::Impl::remove_buffer() {
  ASSIGN_OR_RETURN(const BufferJournal::Lock lock, BufferJournal::Lock::take(journal));
  for (const char* name : {wire::kBufferData, wire::kBufferNames}) {
    if (::rmdir((directory / name).c_str()) != 0) return fail_os(errno, "cannot remove the buffer");
  }
  for (const char* name : {"next-0", "next-1", wire::kBufferProgress, wire::kBufferJournal,
                           wire::kBufferDrainLock, wire::kBufferDirectories}) {
    ::unlink((directory / name).c_str());
  }
  if (::rmdir(directory.c_str()) != 0) return fail_os(errno, "cannot remove the buffer");
  return {};
}

BufferDrain::BufferDrain(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BufferDrain::~BufferDrain() = default;

Result<std::unique_ptr<BufferDrain>> BufferDrain::start(DrainOptions options) {
  const std::string shown = printable(options.directory.string());
  ASSIGN_OR_RETURN(File lock, File::open(options.directory / wire::kBufferDrainLock,
                                         O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  // Of the open file, not of the process: whoever wants to know can ask (F_OFD_GETLK).
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  if (::fcntl(lock.fd(), F_OFD_SETLK, &whole) != 0) {
    return fail(Errc::kAlreadyExists,
                "another process copies the files of this buffer; wait for its job to end")
        .within(shown);
  }
  ASSIGN_OR_RETURN(LoadedBuffer loaded, load_buffer(options.directory).within(shown));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(loaded), std::move(lock));
  if (impl->model.has_queued()) {
    impl->left_until_ns = std::max(impl->progress.written_ns, impl->model.last().time_ns);
  }
  RETURN_IF_ERROR(impl->settle().within(shown));
  impl->wake_event = File(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl->wake_event.is_open()) return fail_os(errno, "cannot make an event");
  impl->changes = File(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (impl->changes.is_open()) {
    const fs::path watched = impl->directory / wire::kBufferJournal;
    if (::inotify_add_watch(impl->changes.fd(), watched.c_str(), IN_MODIFY) < 0) {
      impl->changes = File();
    }
  }
  ASSIGN_OR_RETURN(impl->thread, start_thread("store-buffer", [at = impl.get()] { at->run(); }));
  return std::unique_ptr<BufferDrain>(new BufferDrain(std::move(impl)));
}

std::vector<KeptFile> BufferDrain::finish() {
  impl_->end_thread(impl_->is_finishing);
  if (const Status read = impl_->read_journal(); !read.ok()) {
    // It may have records that nobody knows.
    return {{.data = impl_->directory, .reason = read.error().message()}};
  }
  std::vector<KeptFile> kept = list_kept(impl_->journal, impl_->model, impl_->progress);
  if (kept.empty() && impl_->model.is_empty()) {
    // What cannot be removed does no harm: it has no file.
    [[maybe_unused]] const Status removed = impl_->remove_buffer();
  }
  return kept;
}

Result<std::vector<KeptFile>> flush_buffer(const fs::path& directory, milliseconds patience) {
  auto drain = BufferDrain::start({.directory = directory});
  if (drain.ok()) return (*drain)->finish();
  std::error_code error;
  if (!fs::exists(directory, error)) return std::vector<KeptFile>();
  if (drain.error().code() != Errc::kAlreadyExists) return drain.error();
  ASSIGN_OR_RETURN(const FlushTicket ticket, begin_flush(directory));
  auto failing_since = Clock::now();
  for (;; std::this_thread::sleep_for(kPollEvery)) {
    const wire::FlushProgress state = look_at_flush(directory, ticket);
    if (state == wire::FlushProgress::kRunning) failing_since = Clock::now();
    if (state == wire::FlushProgress::kDurable) break;
    if (Clock::now() - failing_since > patience) break;
  }
  auto contents = read_buffer(directory);
  if (!fs::exists(directory, error)) return std::vector<KeptFile>();
  if (!contents.ok()) return contents.error();
  return std::move(contents->files);
}

}  // namespace millrace::store
