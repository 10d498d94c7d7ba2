#include "bench/generate/generate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <set>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/io/directory.h"
#include "base/io/file.h"
#include "base/system/clock.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "bench/generate/file_job.h"
#include "bench/generate/manifest.h"
#include "bench/workload/own_files.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartialName = ".millrace-partial-";
constexpr Split kSplits[] = {Split::kTrain, Split::kEval};

// Nullopt if there is no such file.
std::optional<uint64_t> length_of(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(found.st_size);
}

Error changed_error(const std::string& path, std::string_view how) {
  return fail(
      Errc::kAlreadyExists,
      "{}: {}, so it changed after it was generated, and is not replaced; remove it to have "
      "it generated again",
      printable(path), how);
}

// The umask decides who may read a dataset, as it does for what other programs write for the user.
Status make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return {};
  return fail_os(error.value(), "cannot create the folder").within(printable(path));
}

Status remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return {};
  return fail_os(error.value(), "cannot remove the folder").within(printable(path));
}

Status rename_file(const std::string& from, const std::string& to) {
  const int error = rename_to_new(from, to);
  if (error == 0) return {};
  if (error == EEXIST) {
    return fail(Errc::kAlreadyExists,
                "{}: the file exists, and is not replaced; remove it, or choose another "
                "dataset.data_folder",
                printable(to));
  }
  if (error == EXDEV) {
    return fail(Errc::kUnsupported,
                "{}: the folder is on another file system than its parent, so that complete files "
                "cannot be renamed into it; set dataset.data_folder to a folder on one file system",
                printable(to));
  }
  return fail_os(error, "cannot rename the complete file").within(printable(to));
}

uint64_t free_bytes_of(const std::string& folder) {
  struct statvfs found{};
  if (::statvfs(folder.c_str(), &found) != 0) return ~uint64_t{0};  // unknown: try
  return uint64_t{found.f_bavail} * found.f_frsize;
}

// Whether there may be files beside the one with the samples. Listing a folder costs as much as
// writing a small file.
bool may_have_other_files(const DatasetPlan& plan) {
  const bool is_by_format = plan.format != nullptr && !plan.hdf5_outline;
  return is_by_format || plan.dataset().traits().has_index;
}

// One rank's part of the work.
class Generation {
 public:
  Generation(const DatasetPlan& plan, comm::Comm& comm, const GenerateOptions& options)
      : plan_(plan),
        comm_(comm),
        options_(options),
        rank_(comm::index_of(comm.rank())),
        thread_count_(options.thread_count == 0 ? usable_cpu_count() : options.thread_count),
        folder_(plan.layout.data_folder()) {}

  Result<GenerateReport> run();

 private:
  struct Needs {
    uint64_t files = 0;
    uint64_t bytes = 0;
  };

  Result<GenerateReport> run_all();
  Status prepare();
  Status share_findings();
  void note_own_folders();
  Status make_folders();
  bool has_files() const;
  void undo_if_empty() const;
  Status remove_leftovers();
  bool is_of_dataset(std::string_view name) const;
  Status find_missing();
  Status find_missing_in(uint64_t first, uint64_t end);
  Result<std::optional<uint64_t>> complete_length(FileId file) const;
  Status check_space(const Needs& all) const;
  Status write_missing();
  Status write_files_of(size_t thread);
  Status write_file(FileId file, const std::string& folder, FileRooms& rooms);
  Status move_into_place(FileId file, const std::string& folder);
  Error out_of_space(const Error& error);
  void count(uint64_t files, uint64_t bytes);
  Result<GenerateReport> sum_up(std::chrono::nanoseconds start);

  // The files of this rank, by their number among them.
  uint64_t own_count() const {
    const uint64_t all = plan_.layout.file_count();
    return all <= rank_ ? 0 : (all - rank_ - 1) / comm_.size() + 1;
  }
  FileId own_file(uint64_t number) const {
    return plan_.layout.file_at(rank_ + number * comm_.size());
  }

  const DatasetPlan& plan_;
  comm::Comm& comm_;
  const GenerateOptions& options_;
  const uint64_t rank_;
  const size_t thread_count_;
  const std::string folder_;
  std::string partial_;          // of this run
  File held_;                    // that folder, on rank 0
  bool may_have_files_ = false;  // of an earlier generation
  bool made_folder_ = false;     // on rank 0: folder_ was not there
  bool wrote_manifest_ = false;  // on rank 0
  int64_t complete_ns_ = 0;      // when an earlier generation completed the dataset; 0: not known
  std::set<std::string> own_folders_;  // on rank 0; relative to folder_
  std::vector<std::string> notes_;
  std::vector<uint8_t> complete_;  // by number among the own files; empty: none is
  Needs needs_;                    // of this rank
  uint64_t kept_ = 0;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<bool> has_failed_ = false;
  std::atomic<uint64_t> dataset_bytes_ = 0;
  Mutex mutex_;
  Needs done_ GUARDED_BY(mutex_);
};

Result<GenerateReport> Generation::run() {
  auto report = run_all();
  // All ranks have stopped: they agree on each error.
  if (!report.ok() && rank_ == 0) {
    static_cast<void>(remove_folder(partial_).ok());
    undo_if_empty();
  }
  return report;
}

// Whether the folders of the dataset have any file.
bool Generation::has_files() const {
  std::error_code error;
  for (const Split split : kSplits) {
    for (fs::recursive_directory_iterator at(plan_.layout.folder(split), error), end;
         !error && at != end; at.increment(error)) {
      if (!at->is_directory(error)) return true;
    }
  }
  return false;
}

// A generation that made no file, such as one that needs more space than there is, leaves nothing:
// a manifest would refuse the next one, with smaller numbers.
void Generation::undo_if_empty() const {
  if (!wrote_manifest_ && !made_folder_) return;
  if (has_files()) return;
  if (wrote_manifest_) ::unlink(fmt::format("{}/{}", folder_, kManifestName).c_str());
  // The longest names first: those of subfolders. Only those that are ours, and only if empty.
  std::vector<std::string> folders(own_folders_.begin(), own_folders_.end());
  std::ranges::sort(folders, std::ranges::greater(), &std::string::size);
  for (const std::string& folder : folders) {
    if (folder != ".") ::rmdir(fmt::format("{}/{}", folder_, folder).c_str());
  }
  if (own_folders_.contains(".")) ::rmdir(folder_.c_str());
}

Result<GenerateReport> Generation::run_all() {
  const auto start = monotonic_now();
  RETURN_IF_ERROR(comm_.agree(rank_ == 0 ? prepare() : Status()));
  RETURN_IF_ERROR(share_findings());
  RETURN_IF_ERROR(comm_.agree(find_missing()));
  uint64_t all[2] = {needs_.files, needs_.bytes};
  RETURN_IF_ERROR(comm_.reduce_to_all(std::span(all), comm::Fold::kSum));
  // The manifest stays as it is: it tells since when the files must not have changed.
  if (all[0] == 0 && complete_ns_ > 0) return sum_up(start);
  ASSIGN_OR_RETURN(Manifest manifest, manifest_of(*plan_.workload));
  const auto begin = [&]() -> Status {
    RETURN_IF_ERROR(check_space({.files = all[0], .bytes = all[1]}));
    note_own_folders();
    manifest.folders.assign(own_folders_.begin(), own_folders_.end());
    RETURN_IF_ERROR(write_manifest(folder_, manifest));
    wrote_manifest_ = true;
    return make_folders();
  };
  RETURN_IF_ERROR(comm_.agree(rank_ == 0 ? begin() : Status()));
  RETURN_IF_ERROR(comm_.agree(write_missing()));
  ASSIGN_OR_RETURN(const GenerateReport report, sum_up(start));
  manifest.is_complete = true;
  manifest.size_bytes = report.dataset_bytes;
  const auto finish = [&]() -> Status {
    RETURN_IF_ERROR(remove_folder(partial_));
    return write_manifest(folder_, manifest);
  };
  RETURN_IF_ERROR(comm_.agree(rank_ == 0 ? finish() : Status()));
  return report;
}

// On rank 0: looks at what is there. Fails if it is another dataset, or not ours.
Status Generation::prepare() {
  std::random_device random;
  partial_ = fmt::format("{}/{}{:08x}", folder_, kPartialName, random());
  std::error_code error;
  if (!fs::exists(folder_, error)) {
    own_folders_.insert(".");
    made_folder_ = true;
  }
  RETURN_IF_ERROR(make_folder(folder_));
  ASSIGN_OR_RETURN(const auto found, read_manifest(folder_));
  // A generation that was killed before its first file was complete has made no dataset.
  const bool is_nothing = found && !found->is_complete && !has_files();
  if (is_nothing) {
    own_folders_.insert(found->folders.begin(), found->folders.end());
    return remove_leftovers();
  }
  if (found) {
    ASSIGN_OR_RETURN(const Manifest wanted, manifest_of(*plan_.workload));
    RETURN_IF_ERROR(compare_manifests(folder_, *found, wanted));
    may_have_files_ = true;
    own_folders_.insert(found->folders.begin(), found->folders.end());
    complete_ns_ = found->is_complete ? found->written_ns : 0;
    return remove_leftovers();
  }
  if (plan_.layout.file_count() == 0) return {};
  const std::string first = plan_.layout.path(plan_.layout.file_at(0));
  if (!length_of(first)) return {};
  return fail(Errc::kAlreadyExists,
              "{}: the file exists, but {} has no {}, so that another program may have generated "
              "it; delete the folder, or choose another dataset.data_folder, or use the dataset "
              "as it is with workflow.generate_data=false",
              printable(first), printable(folder_), kManifestName);
}

Status Generation::share_findings() {
  uint64_t findings[2] = {may_have_files_ ? uint64_t{1} : 0, static_cast<uint64_t>(complete_ns_)};
  RETURN_IF_ERROR(comm_.reduce_to_all(std::span(findings), comm::Fold::kMax));
  may_have_files_ = findings[0] != 0;
  complete_ns_ = static_cast<int64_t>(findings[1]);
  return comm_.broadcast(partial_, comm::kFirstRank);
}

// Those that make_folders() will make: the manifest names them before.
void Generation::note_own_folders() {
  const auto note = [this](const std::string& path) {
    std::error_code error;
    if (!fs::exists(path, error)) own_folders_.insert(fs::path(path).lexically_relative(folder_));
  };
  for (const Split split : kSplits) {
    note(plan_.layout.folder(split));
    for (uint64_t i = 0; i < plan_.layout.subfolder_count(split); ++i) {
      note(plan_.layout.subfolder(split, i));
    }
  }
}

Status Generation::make_folders() {
  RETURN_IF_ERROR(make_folder(partial_));
  ASSIGN_OR_RETURN(held_, hold_folder(partial_));
  for (const Split split : kSplits) {
    RETURN_IF_ERROR(make_folder(plan_.layout.folder(split)));
    for (uint64_t i = 0; i < plan_.layout.subfolder_count(split); ++i) {
      RETURN_IF_ERROR(make_folder(plan_.layout.subfolder(split, i)));
    }
  }
  return {};
}

// Whether files of this name are written for the dataset.
bool Generation::is_of_dataset(std::string_view name) const {
  return name.starts_with(plan_.dataset().file_prefix + "_") &&
         (name.find(fmt::format("_of_{}.", plan_.layout.file_count(Split::kTrain))) != name.npos ||
          name.find(fmt::format("_of_{}.", plan_.layout.file_count(Split::kEval))) != name.npos);
}

// What a killed generation left: half files, in a folder for each of its threads.
Status Generation::remove_leftovers() {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const bool is_folder = entry.symlink_status(error).type() == fs::file_type::directory;
    if (is_folder && entry.path().filename().native().starts_with(kPartialName)) {
      leftovers.push_back(entry);
    }
  }
  for (const fs::path& leftover : leftovers) {
    const auto claimed = claim_folder(leftover);
    if (!claimed) {
      return fail(Errc::kAlreadyExists,
                  "{}: another run generates this dataset; wait for it to end", printable(folder_));
    }
    for (const auto& thread : fs::directory_iterator(leftover, error)) {
      if (!thread.is_directory(error) || thread.is_symlink(error)) continue;
      RETURN_IF_ERROR(
          remove_files_if(thread, [&](const std::string& name) { return is_of_dataset(name); }));
    }
    if (::rmdir(leftover.c_str()) != 0) {
      notes_.push_back(fmt::format("{}: has files that millrace did not write, and stays",
                                   printable(leftover.string())));
    }
  }
  return {};
}

// Nullopt if there is none. Files get their name when they are complete, so one of another length
// was changed.
Result<std::optional<uint64_t>> Generation::complete_length(FileId file) const {
  const std::string path = plan_.layout.path(file);
  const auto found = length_of(path);
  if (!found) return found;
  const auto known = known_file_bytes(plan_, file);
  if (known && *found != *known) {
    return changed_error(path, fmt::format("has {} bytes instead of {}", *found, *known));
  }
  if (*found == 0) return changed_error(path, "is empty");
  if (complete_ns_ > 0 && modified_ns_of(path).value_or(0) > complete_ns_) {
    return changed_error(path, "is newer than the manifest of the dataset");
  }
  return found;
}

// Looks at the files in parts, on all threads: there may be millions.
Status Generation::find_missing() {
  constexpr uint64_t kPart = 4096;
  const uint64_t count = own_count();
  if (may_have_files_) complete_.resize(static_cast<size_t>(count));
  ThreadPool pool(thread_count_);
  return pool.parallel_for(static_cast<size_t>((count + kPart - 1) / kPart), [&](size_t part) {
    const uint64_t first = part * kPart;
    return find_missing_in(first, std::min(count, first + kPart));
  });
}

Status Generation::find_missing_in(uint64_t first, uint64_t end) {
  Needs needs;
  uint64_t kept = 0;
  uint64_t kept_bytes = 0;
  for (uint64_t i = first; i < end; ++i) {
    const FileId file = own_file(i);
    std::optional<uint64_t> length;
    if (!complete_.empty()) {
      ASSIGN_OR_RETURN(length, complete_length(file));
    }
    if (length) {
      complete_[static_cast<size_t>(i)] = 1;
      ++kept;
      kept_bytes += *length;
      continue;
    }
    ++needs.files;
    needs.bytes += estimated_file_bytes(plan_, file);
  }
  const MutexLock lock(mutex_);
  needs_.files += needs.files;
  needs_.bytes += needs.bytes;
  kept_ += kept;
  dataset_bytes_ += kept_bytes;
  return {};
}

Status Generation::check_space(const Needs& all) const {
  const std::string& folder = plan_.layout.data_folder();
  const uint64_t free = free_bytes_of(folder);
  if (all.bytes <= free) return {};
  return fail(Errc::kExhausted,
              "{}: the {} files to generate need {} bytes ({}), but {} bytes ({}) are free; free "
              "some space, choose another dataset.data_folder, or reduce dataset.num_files_train",
              printable(folder), format_exact(all.files), all.bytes,
              format_bytes(all.bytes, ByteUnits::kDecimal), free,
              format_bytes(free, ByteUnits::kDecimal));
}

Status Generation::write_missing() {
  if (needs_.files == 0) return {};
  ThreadPool pool(thread_count_);
  return pool.parallel_for(thread_count_, [this](size_t thread) {
    Status status = write_files_of(thread);
    if (!status.ok()) has_failed_ = true;
    return status;
  });
}

Status Generation::write_files_of(size_t thread) {
  const std::string folder = fmt::format("{}/{}-{}", partial_, rank_, thread);
  RETURN_IF_ERROR(make_folder(folder));
  FileRooms rooms;
  while (!has_failed_) {
    const uint64_t number = next_.fetch_add(1);
    if (number >= own_count()) break;
    if (!complete_.empty() && complete_[static_cast<size_t>(number)]) continue;
    Status status = write_file(own_file(number), folder, rooms);
    if (status.ok()) continue;
    std::error_code ignored;  // the error that counts is already there
    fs::remove_all(folder, ignored);
    if (status.error().code() == Errc::kExhausted) return out_of_space(status.error());
    return status;
  }
  return {};
}

Status Generation::write_file(FileId file, const std::string& folder, FileRooms& rooms) {
  const std::string path = fmt::format("{}/{}", folder, plan_.layout.file_name(file));
  const FileJob job{
      .plan = plan_, .file = file, .path = path, .rooms = rooms, .written = [this](uint64_t bytes) {
        count(0, bytes);
      }};
  RETURN_IF_ERROR(write_dataset_file(job).within(printable(plan_.layout.path(file))));
  const auto known = known_file_bytes(plan_, file);
  dataset_bytes_ += known ? *known : length_of(path).value_or(0);
  RETURN_IF_ERROR(move_into_place(file, folder));
  count(1, 0);
  return {};
}

// The files beside the one with the samples (indexes) come first: it makes the sample complete.
Status Generation::move_into_place(FileId file, const std::string& folder) {
  const std::string name = plan_.layout.file_name(file);
  const std::string target = directory_of(plan_.layout.path(file)).string();
  std::vector<std::string> names;
  if (may_have_other_files(plan_)) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string other = entry.path().filename().string();
      if (other != name) names.push_back(other);
    }
    if (error) return fail_os(error.value(), "cannot list the folder").within(printable(folder));
  }
  names.push_back(name);
  for (const std::string& each : names) {
    const std::string from = fmt::format("{}/{}", folder, each);
    if (options_.fsync) {
      ASSIGN_OR_RETURN(const File written, File::open(from, O_RDONLY));
      RETURN_IF_ERROR(written.sync().within(printable(from)));
    }
    RETURN_IF_ERROR(rename_file(from, fmt::format("{}/{}", target, each)));
  }
  return options_.fsync ? sync_directory(target) : Status();
}

Error Generation::out_of_space(const Error& error) {
  const std::string& folder = plan_.layout.data_folder();
  const uint64_t free = free_bytes_of(folder);
  const MutexLock lock(mutex_);
  const uint64_t left = needs_.bytes > done_.bytes ? needs_.bytes - done_.bytes : 0;
  return fail(
      Errc::kExhausted,
      "{}; {} needs about {} more bytes ({}) and has {} ({}) free; then run again: complete "
      "files are kept",
      error.message(), printable(folder), left, format_bytes(left, ByteUnits::kDecimal), free,
      format_bytes(free, ByteUnits::kDecimal));
}

void Generation::count(uint64_t files, uint64_t bytes) {
  const MutexLock lock(mutex_);
  done_.files += files;
  done_.bytes += bytes;
  if (options_.on_progress) options_.on_progress(done_.files, done_.bytes);
}

Result<GenerateReport> Generation::sum_up(std::chrono::nanoseconds start) {
  Needs done;
  {
    const MutexLock lock(mutex_);
    done = done_;
  }
  uint64_t sums[4] = {done.files, kept_, done.bytes, dataset_bytes_};
  RETURN_IF_ERROR(comm_.reduce_to_all(std::span(sums), comm::Fold::kSum));
  double seconds = std::chrono::duration<double>(monotonic_now() - start).count();
  RETURN_IF_ERROR(comm_.reduce_to_all(std::span(&seconds, 1), comm::Fold::kMax));
  return GenerateReport{.files_written = sums[0],
                        .files_kept = sums[1],
                        .bytes_written = sums[2],
                        .dataset_bytes = sums[3],
                        .seconds = seconds,
                        .notes = notes_};
}

}  // namespace

Result<GenerateReport> generate(const Workload& workload, comm::Comm& comm,
                                const GenerateOptions& options) {
  auto plan = DatasetPlan::of(workload);
  RETURN_IF_ERROR(comm.agree(plan.ok() ? Status() : Status(plan.error())));
  return Generation(*plan, comm, options).run();
}

}  // namespace millrace::bench
