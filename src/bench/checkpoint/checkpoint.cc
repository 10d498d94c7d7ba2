#include "bench/checkpoint/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <new>
#include <optional>
#include <random>
#include <thread>

#include "base/concurrency/thread.h"
#include "base/exception.h"
#include "base/io/directory.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "bench/workload/own_files.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

TransferOptions transfer_options_of(const CheckpointConfig& config) {
  return {.buffer_bytes = config.buffer_size,
          .odirect = config.odirect,
          .drops_cache = config.drop_cache,
          .verifies = config.verify};
}

// A job of one rank does not use its Comm, so that it may go on after a failure.
Status agree_on(comm::Comm& comm, const Status& mine) {
  return comm.size() == 1 ? mine : comm.agree(mine);
}

// How many ranks share the node of the first rank, as in DLIO.
Result<uint32_t> count_ranks_per_node(comm::Comm& comm) {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  ASSIGN_OR_RETURN(const auto names, comm.gather_to_all(bytes_of(name)));
  return static_cast<uint32_t>(std::ranges::count(names, names.front()));
}

// A checkpoint between the start of save() and its completion.
struct Pending {
  CheckpointId id;
  std::vector<PlannedFile> files;
  File held;              // its folder
  File held_local;        // local_flush: the one on this node
  std::string own_files;  // the list of all ranks; only on the first one
  size_t result_index = 0;
  std::thread thread;
  std::atomic<bool> is_done{false};  // set by the thread after its last access
  Status status;                     // of the thread; read it after joining
};

class FolderCheckpointer final : public Checkpointer {
 public:
  FolderCheckpointer(const CheckpointConfig& config, CheckpointPlan plan, comm::Comm& comm)
      : config_(config),
        plan_(std::move(plan)),
        comm_(comm),
        folder_(config.checkpoint_folder),
        local_folder_(config.local_folder),
        transfer_(transfer_options_of(config)) {}

  ~FolderCheckpointer() override {
    if (!pending_) return;
    transfer_.cancel();
    if (pending_->thread.joinable()) pending_->thread.join();
    remove_written(*pending_);
  }

  Status prepare(const CheckpointerOptions& options);

  const std::vector<CheckpointResult>& results() const override { return results_; }
  const std::vector<std::string>& notes() const override { return notes_; }

  Result<CheckpointResult> save(uint64_t epoch, uint64_t step, uint64_t total_step) override;
  Result<CheckpointResult> load(uint64_t epoch, uint64_t step, uint64_t total_step) override;
  Status poll() override;
  Status finish() override { return settle(); }

 private:
  bool is_first() const { return comm_.rank() == comm::kFirstRank; }
  uint64_t rank() const { return comm::index_of(comm_.rank()); }
  CheckpointResult& result_of(const Pending& pending) { return results_[pending.result_index]; }

  Fsync fsync() const { return config_.fsync ? Fsync::kYes : Fsync::kNo; }

  fs::path partial(const fs::path& folder, const Pending& pending) const {
    return partial_path(folder, pending.id, run_);
  }
  Status choose_run(const std::string& wanted);
  std::string list_files(uint64_t total_step) const;
  Status make_partial(Pending& pending);
  Status make_local_partial(Pending& pending);
  Status write_files(const Pending& pending, const fs::path& folder, Fsync fsync);
  Status copy_files(Pending& pending);
  Status begin(Pending& pending);
  Status start_background(Pending& pending, std::function<Status()> work);
  Status settle();
  Status complete(Pending& pending, Status status);
  Status list_complete_files(const Pending& pending);
  Status commit(Pending& pending);
  Status remove_old(CheckpointId newest);
  void remove_written(const Pending& pending) const;
  void take_counts(CheckpointResult& result);

  Status read_files(const CheckpointResult& result, uint64_t total_step);
  Error no_such_checkpoint(CheckpointId id) const;

  CheckpointConfig config_;
  CheckpointPlan plan_;
  comm::Comm& comm_;
  fs::path folder_;
  fs::path local_folder_;
  uint32_t shift_ = 0;  // of ranks, when they load
  // Its buffer is used by this thread or by that of `pending_`, never by both.
  ShardTransfer transfer_;
  std::unique_ptr<Pending> pending_;
  std::vector<CheckpointResult> results_;
  std::string run_;
  std::vector<std::string> notes_;
  std::deque<CheckpointId> saved_;  // by this run and not removed; only on the first rank
};

Status FolderCheckpointer::prepare(const CheckpointerOptions& options) {
  Status status;
  if (is_first() && !options.only_reads) {
    status = make_directories(folder_);
    if (status.ok()) status = remove_partial_checkpoints(folder_, notes_);
  }
  if (config_.write_mode == WriteMode::kLocalFlush && status.ok() && !options.only_reads) {
    status = make_directories(local_folder_);
    // Several ranks of a node may do this at once and be in each other's way: any of them succeeds.
    if (status.ok()) static_cast<void>(remove_partial_checkpoints(local_folder_, notes_).ok());
  }
  RETURN_IF_ERROR(agree_on(comm_, status));
  RETURN_IF_ERROR(choose_run(options.run));
  if (!config_.recovery_rank_shift) return {};
  shift_ = options.ranks_per_node;
  if (shift_ == 0) {
    ASSIGN_OR_RETURN(shift_, count_ranks_per_node(comm_));
  }
  return {};
}

Status FolderCheckpointer::choose_run(const std::string& wanted) {
  std::random_device random;
  run_ = wanted.empty() ? fmt::format("{:08x}", random()) : wanted;
  return comm_.size() == 1 ? Status() : comm_.broadcast(run_, comm::kFirstRank);
}

// ---- saving ----

// Before they are written, so that the next run knows them if this one is killed.
std::string FolderCheckpointer::list_files(uint64_t total_step) const {
  std::vector<OwnFile> files;
  for (uint64_t rank = 0; rank < comm_.size(); ++rank) {
    for (const PlannedFile& file : plan_.files_of(rank, total_step)) {
      files.push_back({.name = file.name});
    }
  }
  return own_files_text(files);
}

Result<CheckpointResult> FolderCheckpointer::save(uint64_t epoch, uint64_t step,
                                                  uint64_t total_step) {
  RETURN_IF_ERROR(settle());
  const nanoseconds begun = monotonic_now();
  auto fresh = std::make_unique<Pending>();
  fresh->id = {.epoch = epoch, .step = step};
  fresh->files = plan_.files_of(rank(), total_step);
  if (is_first()) fresh->own_files = list_files(total_step);
  fresh->result_index = results_.size();
  results_.push_back({.id = fresh->id, .is_pending = true});
  pending_ = std::move(fresh);
  Status status = begin(*pending_);
  const bool is_running = pending_->thread.joinable();
  if (!is_running) pending_->status = std::move(status);  // else the thread sets it
  result_of(*pending_).duration = monotonic_now() - begun;
  if (!is_running) {
    RETURN_IF_ERROR(settle());
    if (config_.rank_sync) results_.back().duration = monotonic_now() - begun;
  }
  return results_.back();
}

// The part of save() that the training always waits for.
Status FolderCheckpointer::begin(Pending& pending) {
  const auto write = [this, &pending]() -> Status {
    RETURN_IF_ERROR(make_partial(pending));
    return write_files(pending, partial(folder_, pending), fsync());
  };
  if (config_.write_mode == WriteMode::kSync) return write();
  if (config_.write_mode == WriteMode::kAsync) return start_background(pending, write);
  // The copy that lasts is the one that is made durable.
  Status written = make_local_partial(pending);
  if (written.ok()) written = write_files(pending, partial(local_folder_, pending), Fsync::kNo);
  take_counts(result_of(pending));
  // All ranks learn of an error now, not when they have trained on.
  RETURN_IF_ERROR(agree_on(comm_, written));
  return start_background(pending, [this, &pending] { return copy_files(pending); });
}

Status FolderCheckpointer::start_background(Pending& pending, std::function<Status()> work) {
  auto run = [&pending, work = std::move(work)] {
    try {
      pending.status = work();
    } catch (...) {
      pending.status = fail_exception();
    }
    pending.is_done.store(true, std::memory_order_release);
  };
  auto thread = start_thread("checkpoint", std::move(run));
  if (!thread.ok()) return std::move(thread).error();
  pending.thread = *std::move(thread);
  return {};
}

// Also on a rank without files: the first rank renames the folder.
Status FolderCheckpointer::make_partial(Pending& pending) {
  const fs::path folder = partial(folder_, pending);
  if (is_first()) RETURN_IF_ERROR(check_replaceable(folder_, pending.id));  // not after hours
  RETURN_IF_ERROR(make_directories(folder));
  ASSIGN_OR_RETURN(pending.held, hold_folder(folder));
  return is_first() ? write_own_files(folder, pending.own_files) : Status();
}

// The ranks of a node share the folder, and each lists its own files.
Status FolderCheckpointer::make_local_partial(Pending& pending) {
  const fs::path folder = partial(local_folder_, pending);
  std::vector<OwnFile> files;
  for (const PlannedFile& file : pending.files) {
    files.push_back({.name = file.name});
  }
  RETURN_IF_ERROR(make_directories(folder));
  ASSIGN_OR_RETURN(pending.held_local, hold_folder(folder));
  return write_own_files(folder, own_files_text(files), fmt::format("-{}", rank()));
}

Status FolderCheckpointer::write_files(const Pending& pending, const fs::path& folder,
                                       Fsync fsync) {
  const std::string checkpoint = checkpoint_name(pending.id);
  for (const PlannedFile& file : pending.files) {
    const ShardBytes bytes(file, checkpoint, config_.randomize_tensor);
    RETURN_IF_ERROR(transfer_.write(folder / file.name, bytes, fsync));
  }
  return {};
}

Status FolderCheckpointer::copy_files(Pending& pending) {
  const fs::path from = partial(local_folder_, pending);
  const fs::path to = partial(folder_, pending);
  RETURN_IF_ERROR(make_partial(pending));
  for (const PlannedFile& file : pending.files) {
    RETURN_IF_ERROR(transfer_.copy(from / file.name, to / file.name, fsync()));
    unlink((from / file.name).c_str());
  }
  unlink((from / fmt::format("{}-{}", kOwnFilesName, rank())).c_str());
  rmdir(from.c_str());  // fails until the last rank of the node is done
  return {};
}

void FolderCheckpointer::take_counts(CheckpointResult& result) {
  const TransferCounts counts = transfer_.take_counts();
  result.fsync_count += counts.fsync_count;
  result.cached_bytes += counts.cached_bytes;
  if (result.file_count == 0) {  // else these are the copies of files that were counted
    result.file_count = counts.file_count;
    result.size_bytes = counts.size_bytes;
  }
}

Status FolderCheckpointer::poll() {
  if (!pending_) return {};
  uint64_t done[] = {pending_->is_done.load(std::memory_order_acquire) ? uint64_t{1} : 0};
  if (comm_.size() > 1) RETURN_IF_ERROR(comm_.reduce_to_all(std::span(done), comm::Fold::kMin));
  return done[0] == 1 ? settle() : Status();
}

// Completes the checkpoint in progress, if there is one.
Status FolderCheckpointer::settle() {
  if (!pending_) return {};
  const std::unique_ptr<Pending> pending = std::move(pending_);
  if (pending->thread.joinable()) pending->thread.join();
  CheckpointResult& result = result_of(*pending);
  take_counts(result);
  Status status = complete(*pending, pending->status);
  result.is_pending = false;
  if (!status.ok()) results_.pop_back();
  return status;
}

Status FolderCheckpointer::complete(Pending& pending, Status status) {
  status = agree_on(comm_, status);
  if (!status.ok()) {
    remove_written(pending);
    return status;
  }
  status = agree_on(comm_, list_complete_files(pending));
  if (status.ok()) status = agree_on(comm_, is_first() ? commit(pending) : Status());
  if (!status.ok()) remove_written(pending);
  return status;
}

// With lengths and inodes, so that a later run can tell whether they are still ours.
Status FolderCheckpointer::list_complete_files(const Pending& pending) {
  const fs::path folder = partial(folder_, pending);
  std::vector<std::string> names;
  for (const PlannedFile& file : pending.files) names.push_back(file.name);
  auto files = look_at_files(folder, names);
  std::string text = files.ok() ? own_files_text(*files) : "";
  if (comm_.size() > 1) {
    ASSIGN_OR_RETURN(const auto all, comm_.gather(bytes_of(text), comm::kFirstRank));
    text.clear();
    for (const std::string& each : all) text += each;
  }
  RETURN_IF_ERROR(std::move(files));
  return is_first() ? write_own_files(folder, text) : Status();
}

Status FolderCheckpointer::commit(Pending& pending) {
  ASSIGN_OR_RETURN(const uint64_t fsyncs,
                   commit_checkpoint(folder_, pending.id, run_, config_.fsync, notes_));
  result_of(pending).fsync_count += fsyncs;
  return remove_old(pending.id);
}

// Only checkpoints of this run: those of other runs are not ours to remove.
Status FolderCheckpointer::remove_old(CheckpointId newest) {
  std::erase(saved_, newest);  // if it was saved before, this is a new one
  saved_.push_back(newest);
  while (config_.keep > 0 && saved_.size() > config_.keep) {
    RETURN_IF_ERROR(remove_checkpoint(folder_, saved_.front(), run_, notes_));
    saved_.pop_front();
  }
  return {};
}

// Each rank removes its own files, because others may still be writing theirs; the last one also
// removes the folder.
void FolderCheckpointer::remove_written(const Pending& pending) const {
  for (const fs::path& folder : {folder_, local_folder_}) {
    if (folder.empty()) continue;
    const fs::path written = partial(folder, pending);
    for (const PlannedFile& file : pending.files) unlink((written / file.name).c_str());
    if (is_first()) unlink((written / kOwnFilesName).c_str());
    unlink((written / fmt::format("{}-{}", kOwnFilesName, rank())).c_str());
    rmdir(written.c_str());
  }
}

// ---- loading ----

Error FolderCheckpointer::no_such_checkpoint(CheckpointId id) const {
  const auto found = find_checkpoints(folder_);
  std::vector<std::string> names;
  if (found.ok()) {
    for (const CheckpointId other : *found) names.push_back(checkpoint_name(other));
  }
  constexpr size_t kNamesMax = 5;
  const std::string more = names.size() > kNamesMax ? " and others" : "";
  names.resize(std::min(names.size(), kNamesMax));
  return fail(Errc::kNotFound, "{}: there is no such checkpoint; the folder {}",
              checkpoint_path(folder_, id).native(),
              names.empty() ? "has none: write one first (checkpoint.num_checkpoints_write)"
                            : fmt::format("has {}{}", join(names, ", "), more));
}

Result<CheckpointResult> FolderCheckpointer::load(uint64_t epoch, uint64_t step,
                                                  uint64_t total_step) {
  RETURN_IF_ERROR(settle());
  const nanoseconds begun = monotonic_now();
  CheckpointResult result{.id = {.epoch = epoch, .step = step}, .is_load = true};
  const Status status = read_files(result, total_step);
  take_counts(result);
  const nanoseconds read = monotonic_now();
  RETURN_IF_ERROR(agree_on(comm_, status));
  result.duration = (config_.rank_sync ? monotonic_now() : read) - begun;
  results_.push_back(result);
  return result;
}

Status FolderCheckpointer::read_files(const CheckpointResult& result, uint64_t total_step) {
  const fs::path whole = checkpoint_path(folder_, result.id);
  std::error_code ignored;
  if (!fs::is_directory(whole, ignored)) return no_such_checkpoint(result.id);
  const uint64_t from = (rank() + shift_) % comm_.size();
  for (const PlannedFile& file : plan_.files_of(from, total_step)) {
    const ShardBytes bytes(file, checkpoint_name(result.id), config_.randomize_tensor);
    RETURN_IF_ERROR(transfer_.read(whole / file.name, bytes));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(const Workload& workload, comm::Comm& comm,
                                                         const CheckpointerOptions& options) {
  const CheckpointConfig& config = workload.checkpoint;
  if (config.write_mode == WriteMode::kLocalFlush && config.local_folder.empty()) {
    return fail(Errc::kInvalidArgument,
                "checkpoint.write_mode: local_flush needs a folder on local storage; set "
                "checkpoint.local_folder");
  }
  ASSIGN_OR_RETURN(CheckpointPlan plan, CheckpointPlan::make(workload.model, config, comm.size()));
  std::unique_ptr<FolderCheckpointer> opened;
  try {
    opened = std::make_unique<FolderCheckpointer>(config, std::move(plan), comm);
  } catch (const std::bad_alloc&) {
    return fail(Errc::kExhausted,
                "no memory for a buffer of {} bytes; lower checkpoint.buffer_size",
                config.buffer_size);
  }
  RETURN_IF_ERROR(opened->prepare(options));
  return std::unique_ptr<Checkpointer>(std::move(opened));
}

Result<bool> is_due_on_all(const CheckpointSchedule& schedule, const TrainingMoment& moment,
                           comm::Comm& comm) {
  const bool mine = schedule.is_due(moment);
  if (schedule.trigger() != CheckpointSchedule::Trigger::kTime || comm.size() == 1) return mine;
  std::string decision = mine ? "1" : "0";
  RETURN_IF_ERROR(comm.broadcast(decision, comm::kFirstRank));
  return decision == "1";
}

}  // namespace millrace::bench
