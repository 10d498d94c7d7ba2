#include "trace/pack/packer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <set>

#include "base/concurrency/thread_pool.h"
#include "base/exception.h"
#include "base/io/directory.h"
#include "trace/all/remote.h"
#include "trace/pack/packed_writer.h"
#include "trace/record/recording_index.h"
#include "trace/record/session_directory.h"

namespace millrace::trace {
namespace {

namespace fs = std::filesystem;

// The columns of one block on their way into the file.
struct PendingBlock {
  EventColumns columns;
  PackedWriter::EncodedBlock encoded;
  BlockEncoder encoder;
  ProcessIndex process{};
};

}  // namespace

struct Packer::State final : Registry {
  State(SessionDirectory directory, fs::path path, const PackOptions& given)
      : session(std::move(directory)), output(std::move(path)), options(given) {}

  NameIndex add_name(std::string_view name) override { return writer->add_name(name); }
  ProcessIndex add_process(const ProcessEntry& entry) override {
    return writer->add_process(entry);
  }
  ThreadIndex add_thread(const Thread& thread) override { return writer->add_thread(thread); }

  Status begin();
  Status check_owner(const File& file, bool is_new) const;
  void start_over();
  Result<PackOutcome> run(bool at_end);
  Status pack(const std::vector<std::string>& recordings, bool at_end, PackOutcome& outcome);
  Status pack_process(const std::string& name, bool ended, const TickMap& ticks,
                      PackOutcome& outcome);
  Status pack_group(const ProcessRecording& recording, const std::string& name, ChunkGroup group,
                    const TickMap& ticks, PackOutcome& outcome);
  Status write_pending();
  Status check_stopped() const;
  void end_process(const ProcessRecording& recording, const std::string& name,
                   const TickMap& ticks);
  std::string command_of(const wire::ProcessPage& page) const;
  void add_users(PackOutcome& outcome) const;
  void add_session_losses(const TickMap& ticks);
  Status commit(bool with_index);
  void remove_packed(PackOutcome& outcome);
  void remember_samples(const TickMap& ticks);

  SessionDirectory session;
  fs::path output;
  PackOptions options;
  File lock;
  std::optional<PackedWriter> writer;
  std::optional<RecordingIndex> index;
  std::map<std::string, Consumed> consumed;  // as committed
  std::map<std::string, Consumed> changes;   // in this run
  std::vector<wire::ClockSample> samples;    // as committed, without the session's first
  std::vector<wire::ClockSample> new_samples;
  uint64_t committed_bytes = 0;
  bool has_index = false;
  bool has_durable_name = false;
  std::vector<std::unique_ptr<PendingBlock>> pending;
  size_t pending_count = 0;
  std::unique_ptr<ThreadPool> pool;
  std::vector<Chunk> chunks;  // reused memory
};

Packer::Packer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Packer::Packer(Packer&&) noexcept = default;
Packer& Packer::operator=(Packer&&) noexcept = default;
Packer::~Packer() = default;

fs::path Packer::default_output(const fs::path& session_directory) {
  const fs::path normal = session_directory.lexically_normal();
  const fs::path own = normal.has_filename() ? normal : normal.parent_path();
  const auto session = SessionDirectory::open(own);
  for (int number = 1;; ++number) {
    fs::path path = own;
    path += number == 1 ? ".mrt" : fmt::format("-{}.mrt", number);
    std::error_code error;
    if (!fs::exists(path, error) || !session.ok()) return path;
    // Just created by a packer of this session: nobody else creates a file of this name.
    if (fs::file_size(path, error) == 0) return path;
    auto source = ByteSource::from_file(path.string());
    if (!source.ok()) continue;
    const auto file = PackedTrace::open(*std::move(source), path.string());
    if (file.ok() && file->is_packed_recording() &&
        (file->tables().sessions.empty() ||
         is_same_recording(file->tables().sessions.front(), session->entry()))) {
      return path;
    }
  }
}

Result<Packer> Packer::open(const fs::path& session_directory, const fs::path& output,
                            const PackOptions& options) {
  ASSIGN_OR_RETURN(SessionDirectory session, SessionDirectory::open(session_directory));
  auto state = std::make_unique<State>(std::move(session), output, options);
  RETURN_IF_ERROR(state->begin().within(output.string()));
  return Packer(std::move(state));
}

Status Packer::State::begin() {
  // It contains the recording's names and command lines, so only its user may read it.
  auto opened = File::open(output, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  const bool is_new = opened.ok();
  if (!is_new && opened.error().code() == Errc::kAlreadyExists) {
    opened = File::open(output, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  }
  ASSIGN_OR_RETURN(File file, std::move(opened));
  RETURN_IF_ERROR(check_owner(file, is_new));
  // On its own descriptor: the lock is held as long as the packer exists.
  ASSIGN_OR_RETURN(lock, File::open(output, O_RDONLY));
  if (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return fail(Errc::kAlreadyExists,
                  "another millrace is packing into this file; let it finish");
    }
    // Some network file systems have no locks. Commits still keep readers correct.
  }
  auto names = session.names();
  if (!names.ok()) names = ByteSource(ByteView());
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes());
  if (size_bytes == 0) {
    ASSIGN_OR_RETURN(auto created,
                     PackedWriter::create(std::move(file), session.page().first.wall_ns,
                                          wire::kTraceFileNeedsCommit));
    writer.emplace(std::move(created));
    writer->add_session(session.entry());
    index.emplace(*this, *std::move(names));
  } else {
    ASSIGN_OR_RETURN(ByteSource source, ByteSource::from_file(output.string()));
    ASSIGN_OR_RETURN(const PackedTrace before,
                     PackedTrace::open(std::move(source), "the packed trace"));
    const auto& sessions = before.tables().sessions;
    if (!before.is_packed_recording() ||
        (!sessions.empty() && !is_same_recording(sessions.front(), session.entry()))) {
      return fail(Errc::kAlreadyExists, "contains another trace; choose another name");
    }
    consumed = before.consumed();
    samples = before.clock_samples();
    writer.emplace(PackedWriter::resume(std::move(file), before));
    if (sessions.empty()) writer->add_session(session.entry());
    index.emplace(*this, *std::move(names));
    index->remember(writer->tables());
    has_index = before.has_index();
  }
  committed_bytes = writer->size_bytes();
  if (options.threads > 1) pool = std::make_unique<ThreadPool>(options.threads - 1);
  return {};
}

// The packed trace must belong to the owner of the recording. Otherwise root would take it away
// from its user, and in a directory that others may write to, someone could have created the file
// first.
Status Packer::State::check_owner(const File& file, bool is_new) const {
  struct stat recorded{};
  struct stat packed{};
  if (stat(session.path().c_str(), &recorded) != 0 || fstat(file.fd(), &packed) != 0) {
    return fail_os(errno, "cannot determine its owner");
  }
  if (recorded.st_uid == packed.st_uid) return {};
  if (is_new) unlink(output.c_str());
  return fail(Errc::kPermission,
              "it would belong to user {}, but the recording in {} belongs to user {}; pack it as "
              "that user",
              packed.st_uid, session.path().string(), recorded.st_uid);
}

Result<PackOutcome> Packer::pack_available() { return state_->run(false); }
Result<PackOutcome> Packer::finish() { return state_->run(true); }

Result<PackOutcome> Packer::State::run(bool at_end) {
  if (!writer) {
    return fail(Errc::kIo, "{}: cannot be written after an earlier error", output.string());
  }
  PackOutcome outcome;
  changes.clear();
  pending_count = 0;
  const std::vector<std::string> recordings = session.process_recordings();
  Status status;
  try {
    status = pack(recordings, at_end, outcome);
    if (status.ok()) status = commit(at_end);
  } catch (const std::bad_alloc&) {
    status = fail_exception();
  }
  if (!status.ok()) {
    // What was written since the last commit does not count: free the space.
    if (writer) writer->truncate(committed_bytes);
    start_over();
    return fail(status.error().code(),
                "{}: {}; the recording in {} is unchanged, and can be read "
                "and packed later",
                output.string(), status.error().message(), session.path().string());
  }
  remove_packed(outcome);
  outcome.packed_bytes = writer->size_bytes();
  return outcome;
}

// Starts again from the contents of the file; without a writer if even that fails.
void Packer::State::start_over() {
  index.reset();
  writer.reset();
  pool.reset();
  lock = File();
  const Status status = begin();
  if (!status.ok()) writer.reset();
}

Status Packer::State::pack(const std::vector<std::string>& recordings, bool at_end,
                           PackOutcome& outcome) {
  std::map<std::string, wire::ProcessPage> pages;
  std::vector<wire::ProcessPage> all_pages;
  for (const std::string& name : recordings) {
    const auto page = session.read_process(name);
    if (page.ok()) {
      pages.emplace(name, *page);
      all_pages.push_back(*page);
    } else {
      outcome.problems.push_back(page.error().message());
    }
  }
  if (auto names = session.names(); names.ok()) index->set_names(*std::move(names));
  index->set_joined(find_joined(pages));
  const TickMap ticks = session.tick_map(samples, all_pages);
  RETURN_IF_ERROR(check_stopped());
  for (const auto& [name, page] : pages) {
    if (consumed[name].done) continue;
    Life life = session.life_of(page, all_pages);
    if (life == Life::kElsewhere && options.others_ended) life = Life::kEnded;
    const bool ended = at_end && life == Life::kEnded;
    if (life != Life::kEnded) {
      outcome.running.push_back({page.pid, command_of(page),
                                 life == Life::kElsewhere ? session.entry().session.host : ""});
    }
    RETURN_IF_ERROR(pack_process(name, ended, ticks, outcome));
  }
  RETURN_IF_ERROR(write_pending());
  if (at_end && outcome.running.empty()) add_users(outcome);
  if (at_end && outcome.running.empty()) add_session_losses(ticks);
  remember_samples(ticks);
  for (std::string& problem : index->take_problems())
    outcome.problems.push_back(std::move(problem));
  return {};
}

std::string Packer::State::command_of(const wire::ProcessPage& page) const {
  const auto names = session.names();
  if (!names.ok()) return "";
  const auto command = read_name(*names, page.command_line);
  return command.ok() ? *command : "";
}

// All recorded processes have ended, but a child that the last one left behind may not have started
// to record: without the directory it never could. This is checked only now, because an earlier
// check would miss children that were forked later.
void Packer::State::add_users(PackOutcome& outcome) const {
  if (!session.is_of_this_boot()) return;
  for (const uint32_t pid : find_session_users(session)) {
    outcome.running.push_back({pid, read_command_line(pid), ""});
  }
}

void Packer::State::add_session_losses(const TickMap& ticks) {
  // Read the page again: the packer of a launcher was opened before anything could be lost.
  const auto now = SessionDirectory::open(session.path());
  const wire::LossCounters lost = now.ok() ? now->page().lost : session.page().lost;
  if (consumed["session"].done || (lost.events == 0 && lost.names == 0)) return;
  writer->add_loss({.process = kNoProcess,
                    .events = lost.events,
                    .names = lost.names,
                    .first_ns = ticks.since_first_ns(lost.first_ticks),
                    .last_ns = ticks.since_first_ns(lost.last_ticks),
                    .error = static_cast<int>(lost.error)});
  changes["session"].done = true;
}

Status Packer::State::pack_process(const std::string& name, bool ended, const TickMap& ticks,
                                   PackOutcome& outcome) {
  const Consumed& before = consumed[name];
  std::error_code error;
  if (!ended) {
    const uint64_t log_bytes = fs::file_size(session.log_path(name), error);
    if (error || log_bytes < before.log_bytes + options.batch_bytes) return {};
  }
  const auto extent = ended ? ProcessRecording::Extent::kAll : ProcessRecording::Extent::kLog;
  const auto recording = session.read(name, before, extent);
  if (!recording.ok()) {
    outcome.problems.push_back(recording.error().message());
    return {};
  }
  for (const std::string& problem : recording->problems()) {
    outcome.problems.push_back(session.rings_path(name).string() + ": " + problem);
  }
  for (const ChunkGroup group : group_chunks(recording->chunks())) {
    RETURN_IF_ERROR(check_stopped());
    RETURN_IF_ERROR(pack_group(*recording, name, group, ticks, outcome));
  }
  changes[name] = recording->consumed_after();
  changes[name].done = ended;
  if (ended) end_process(*recording, name, ticks);
  return {};
}

Status Packer::State::pack_group(const ProcessRecording& recording, const std::string& name,
                                 ChunkGroup group, const TickMap& ticks, PackOutcome& outcome) {
  const wire::ProcessPage& page = recording.page();
  std::set<uint32_t> pids;
  uint32_t last_pid = 0;
  if (chunks.size() < group.count) chunks.resize(group.count);
  for (size_t i = 0; i < group.count; ++i) {
    RETURN_IF_ERROR(recording.read_chunk(recording.chunks()[group.first + i], chunks[i]));
    visit_events(chunks[i], [&](std::span<const wire::TraceSlot>, HostThread thread) {
      if (!pids.empty() && thread.pid == last_pid) return;
      pids.insert(thread.pid);
      last_pid = thread.pid;
    });
  }
  for (const uint32_t pid : pids) {
    if (pending_count == pending.size()) pending.push_back(std::make_unique<PendingBlock>());
    PendingBlock& block = *pending[pending_count++];
    block.process = index->process(page, pid, name, ticks);
    clear(block.columns);
    RegisteringNames names(*index);
    RegisteringThreads threads(*index, block.process);
    EventAppender appender(ticks, names, threads, block.columns);
    for (const Chunk& chunk : std::span(chunks).first(group.count)) {
      visit_events(chunk, [&](std::span<const wire::TraceSlot> slots, HostThread thread) {
        if (thread.pid == pid) appender.append(slots, thread);
      });
    }
    appender.finish();
    outcome.events += block.columns.size_events();
    Process& entry = writer->process(block.process).process;
    for (size_t i = 0; i < block.columns.size_events(); ++i) {
      entry.end_ns =
          std::max(entry.end_ns, block.columns.begin_ns[i] + block.columns.duration_ns[i]);
    }
    // One block per thread: each takes about five megabytes, and touching new memory costs as much
    // as encoding.
    if (pending_count >= std::max<size_t>(1, options.threads)) RETURN_IF_ERROR(write_pending());
  }
  return {};
}

Status Packer::State::check_stopped() const {
  if (options.stopped && options.stopped()) return fail(Errc::kCancelled, "packing was stopped");
  return {};
}

Status Packer::State::write_pending() {
  const auto encode = [&](size_t i) -> Status {
    PendingBlock& block = *pending[i];
    const EventRun run{0, block.columns.size_events()};
    // The writer itself splits blocks with too many tags.
    if (PackedWriter::next_run(block.columns, 0).count == run.count) {
      PackedWriter::encode(block.columns, run, block.process, block.encoder, block.encoded);
    } else {
      block.encoded.count = 0;
    }
    return {};
  };
  if (pool != nullptr) {
    RETURN_IF_ERROR(pool->parallel_for(pending_count, encode));
  } else {
    for (size_t i = 0; i < pending_count; ++i) RETURN_IF_ERROR(encode(i));
  }
  for (size_t i = 0; i < pending_count; ++i) {
    const PendingBlock& block = *pending[i];
    RETURN_IF_ERROR(block.encoded.count > 0 ? writer->append(block.encoded)
                                            : writer->append(block.columns, block.process));
  }
  pending_count = 0;
  return {};
}

// Records the final state of a process: how it ended, and what it lost.
void Packer::State::end_process(const ProcessRecording& recording, const std::string& name,
                                const TickMap& ticks) {
  const wire::ProcessPage& page = recording.page();
  const ProcessIndex process = index->process(page, page.pid, name, ticks);
  ProcessEntry& entry = writer->process(process);
  if (index->is_joined(name)) {
    take_from_inside(entry, page);
  } else {
    const ProcessEntry before = entry;
    entry = process_entry(page, page.pid, name, ticks);
    entry.process.session = before.process.session;
    entry.process.end_ns = before.process.end_ns;
    entry.process.executable = before.process.executable;
    entry.process.command_line = before.process.command_line;
    entry.process.working_directory = before.process.working_directory;
    if (page.recorded_from == wire::RecordedFrom::kOutside) {
      // Keep what a page from inside has said before.
      if (entry.process.rank < 0) {
        entry.process.rank = before.process.rank;
        entry.rank_origin = before.rank_origin;
      }
      if (entry.process.world_size < 0) entry.process.world_size = before.process.world_size;
      std::copy(std::begin(before.peer), std::end(before.peer), entry.peer);
    }
  }
  if (page.lost.events == 0 && page.lost.names == 0) return;
  writer->add_loss({.process = process,
                    .events = page.lost.events,
                    .names = page.lost.names,
                    .first_ns = ticks.since_first_ns(page.lost.first_ticks),
                    .last_ns = ticks.since_first_ns(page.lost.last_ticks),
                    .error = static_cast<int>(page.lost.error)});
}

// Later runs must give the events of this run the same times.
void Packer::State::remember_samples(const TickMap& ticks) {
  new_samples.clear();
  if (changes.empty()) return;
  writer->session(0).clock.last = ticks.samples().back();
  const auto known = static_cast<ptrdiff_t>(1 + samples.size());
  new_samples.assign(ticks.samples().begin() + known, ticks.samples().end());
}

// The next commit covers everything since the last one. A stopped packer therefore leaves either
// all of a step or nothing.
Status Packer::State::commit(bool with_index) {
  RETURN_IF_ERROR(writer->flush_tables());
  if (!new_samples.empty() && !changes.empty()) RETURN_IF_ERROR(writer->append_clock(new_samples));
  if (writer->size_bytes() != committed_bytes || !changes.empty()) {
    RETURN_IF_ERROR(writer->append_commit({.from_offset = committed_bytes, .consumed = changes}));
    has_index = false;
  }
  if (with_index && !has_index) {
    RETURN_IF_ERROR(writer->finish());
    has_index = true;
  }
  if (writer->size_bytes() == committed_bytes) return {};
  RETURN_IF_ERROR(writer->sync());
  // The recording is deleted after this. If a crash lost the file's name, its events would be lost.
  if (!has_durable_name) RETURN_IF_ERROR(sync_directory(directory_of(output)));
  has_durable_name = true;
  if (!changes.empty()) samples.insert(samples.end(), new_samples.begin(), new_samples.end());
  for (const auto& [name, change] : changes) consumed[name] = change;
  committed_bytes = writer->size_bytes();
  return {};
}

void Packer::State::remove_packed(PackOutcome& outcome) {
  for (const auto& [name, change] : changes) {
    if (!consumed[name].done) session.free_log_space(name, consumed[name].log_bytes);
  }
  // Listed only now, after all possible writers have ended: everything they left is here.
  bool anything_left = !outcome.running.empty();
  for (const std::string& name : session.process_recordings()) {
    if (!consumed[name].done) {
      anything_left = true;
      continue;
    }
    session.remove(name);
  }
  if (anything_left || !has_index) return;
  outcome.session_removed = remove_session(session.path());
  if (!outcome.session_removed) {
    outcome.problems.push_back(session.path().string() +
                               ": has files that are not of the recording; they stay");
  }
}

}  // namespace millrace::trace
