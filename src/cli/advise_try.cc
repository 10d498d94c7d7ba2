#include "cli/advise_try.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <set>

#include "analyze/files/file_kinds.h"
#include "base/io/atomic_file.h"
#include "base/io/file.h"
#include "base/io/mounts.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/counter_random.h"
#include "base/system/progress.h"
#include "base/system/subprocess.h"
#include "base/text/fields.h"
#include "base/text/json.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/jobs/interruption.h"
#include "comm/single.h"
#include "interop/inputs.h"
#include "replay/plan.h"
#include "store/pack/packer.h"
#include "store/service/service.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesMax = 10'000;
constexpr uint64_t kBytesMax = uint64_t{1} << 30;
constexpr std::chrono::minutes kRunsMax{10};

// The files that are tried: names as in the trace.
struct Sample {
  std::string root;  // contains all of them
  std::vector<std::string> files;
  uint64_t size_bytes = 0;
  uint64_t dataset_count = 0;  // files that the job read
};

// Files that the job read and did not write.
std::vector<std::string> data_files(const replay::Plan& plan) {
  std::vector<bool> is_read(plan.paths.size());
  for (const replay::Step& step : plan.steps) {
    const replay::Action action = replay::action_of(step.call);
    if (!replay::reads(action) || action == replay::Action::kTransfer) continue;
    is_read[plan.handles[step.target].path] = true;
  }
  std::vector<std::string> files;
  for (uint32_t i = 0; i < plan.paths.size(); ++i) {
    const replay::Path& path = plan.paths[i];
    const std::string& name = plan.names.text(i);
    if (!is_read[i] || path.is_created || path.is_modified || path.is_directory) continue;
    if (analyze::is_system_path(name) || name.find('\n') != std::string::npos) continue;
    files.push_back(name);
  }
  return files;
}

void shuffle_files(std::vector<std::string>& files) {
  CounterRandom random(0, files.size());
  for (size_t i = files.size(); i > 1; --i) std::swap(files[i - 1], files[random.next() % i]);
}

// A random sample of the files that are still there. `room_bytes` is what fits.
Result<Sample> choose_sample(std::vector<std::string> files, uint64_t room_bytes) {
  if (files.empty()) {
    return fail(Errc::kNotFound,
                "the trace has no reads of data files, so there is nothing to measure");
  }
  Sample sample;
  sample.dataset_count = files.size();
  shuffle_files(files);
  const uint64_t limit_bytes = std::min(kBytesMax, room_bytes);
  for (std::string& file : files) {
    if (sample.files.size() == kFilesMax) break;
    struct stat status{};
    if (::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (::access(file.c_str(), R_OK) != 0) continue;
    const auto size_bytes = static_cast<uint64_t>(status.st_size);
    if (size_bytes > limit_bytes - sample.size_bytes) continue;
    sample.size_bytes += size_bytes;
    const std::string_view directory = replay::parent_of(file);
    sample.root =
        sample.files.empty() ? directory : replay::common_directory(sample.root, directory);
    sample.files.push_back(std::move(file));
  }
  if (!sample.files.empty()) return sample;
  return fail(Errc::kNotFound,
              "of {} that the job read, none is here, can be read and fits into {}; the first is "
              "{}. Run this where the dataset is, or choose a larger --scratch",
              counted(sample.dataset_count, "data file", "data files"), format_bytes(limit_bytes),
              printable(files.front()));
}

bool is_memory(const fs::path& path) {
  std::error_code error;
  const auto mount = mount_of(fs::canonical(path, error));
  return mount && (mount->file_system == "tmpfs" || mount->file_system == "ramfs");
}

// Bytes that are not on the device yet cannot be dropped from the page cache.
void write_back(const fs::path& directory) {
  const auto opened = File::open(directory, O_RDONLY | O_DIRECTORY);
  if (opened.ok()) ::syncfs(opened->fd());
}

void drop_cache(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const auto file = File::open(entry.path(), O_RDONLY);
    if (file.ok()) ::posix_fadvise(file->fd(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

// What a replay printed.
struct ReplayTimes {
  uint64_t calls = 0;
  uint64_t recorded_ns = 0;
  uint64_t replayed_ns = 0;
};

Result<ReplayTimes> read_times(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(const Document document, parse_json(text, printable(path.string())));
  ReplayTimes times;
  const Node* const functions = document.root.find("functions");
  if (functions == nullptr) return fail(Errc::kCorrupt, "`millrace replay` printed no functions");
  for (const Node& function : functions->items()) {
    ASSIGN_OR_RETURN(Fields fields, Fields::of(document, function));
    uint64_t calls = 0;
    RETURN_IF_ERROR(fields.require("calls", calls));
    times.calls += calls;
    for (const auto& [key, sum] :
         {std::pair("recorded", &times.recorded_ns), std::pair("replayed", &times.replayed_ns)}) {
      ASSIGN_OR_RETURN(Fields side, fields.section(key));
      uint64_t time_ns = 0;
      RETURN_IF_ERROR(side.require("time_ns", time_ns));
      *sum += time_ns;
    }
  }
  return times;
}

class Trying {
 public:
  Trying(std::string program, std::string trace, Sample sample, TemporaryDirectory folder)
      : program_(std::move(program)),
        trace_(std::move(trace)),
        sample_(std::move(sample)),
        folder_(std::move(folder)) {}

  Result<advise::Trial> run() {
    trial_.directory = sample_.root;
    trial_.file_count = sample_.files.size();
    trial_.dataset_count = sample_.dataset_count;
    trial_.size_bytes = sample_.size_bytes;
    RETURN_IF_ERROR(write_list());
    RETURN_IF_ERROR(pack().within("packing the sample"));
    RETURN_IF_ERROR(try_files().within("replaying on the files"));
    RETURN_IF_ERROR(try_packed().within("replaying on the store"));
    trial_.notes.emplace_back(
        "only calls on these files are made again, not the code around them; listings of directories "
        "are left out");
    return std::move(trial_);
  }

 private:
  Status write_list() const {
    std::string list;
    for (const std::string& file : sample_.files) list += file + "\n";
    return write_file_atomically(folder_.path() / "files", bytes_of(std::string_view(list)));
  }

  Status pack() const {
    store::PackOptions options{.source = sample_.root, .directory = folder_.path() / "packs"};
    for (const std::string& file : sample_.files) {
      options.files.emplace_back(replay::relative_to(file, sample_.root));
    }
    Progress progress(
        {.label = "packing a sample", .total = sample_.size_bytes, .counts_bytes = true});
    options.on_packed = [&](uint64_t bytes) { progress.add(bytes); };
    const auto comm = comm::single();
    RETURN_IF_ERROR(store::pack_directory(options, *comm));
    return {};
  }

  std::vector<std::string> replay_words(const std::string& onto) const {
    return {program_,
            "replay",
            trace_,
            "--root",
            sample_.root,
            "--files-from",
            folder_.path() / "files",
            "--existing",
            "--json",
            "--onto",
            onto};
  }

  // Runs a shell script whose $0 is the beginning of the names of its results, and whose "$@" is a
  // replay on `onto`. `before` goes before the shell. Returns what it printed.
  Result<std::string> run_script(std::vector<std::string> before, const char* script,
                                 const std::string& name, const std::string& onto) const {
    std::vector<std::string> words = std::move(before);
    words.insert(words.end(), {"sh", "-c", script, folder_.path() / name});
    const std::vector<std::string> replay = replay_words(onto);
    words.insert(words.end(), replay.begin(), replay.end());
    ASSIGN_OR_RETURN(SubprocessResult done,
                     run_subprocess(words, {.timeout = kRunsMax, .cancelled = &is_interrupted}));
    if (done.exit_code == 0) return std::move(done.output);
    return fail(Errc::kIo, "exit code {}: {}", done.exit_code, printable(done.output));
  }

  // The lower of two hot runs: others may have disturbed one.
  Status take(const std::string& name, advise::TriedTimes& times) {
    const fs::path prefix = folder_.path() / name;
    ASSIGN_OR_RETURN(const ReplayTimes cold, read_times(prefix.string() + ".cold"));
    ASSIGN_OR_RETURN(const ReplayTimes hot, read_times(prefix.string() + ".hot"));
    ASSIGN_OR_RETURN(const ReplayTimes again, read_times(prefix.string() + ".again"));
    times.cold_ns = cold.replayed_ns;
    times.hot_ns = std::min(hot.replayed_ns, again.replayed_ns);
    trial_.call_count = hot.calls;
    trial_.recorded_ns = hot.recorded_ns;
    return {};
  }

  Status try_files() {
    write_back(sample_.root);
    RETURN_IF_ERROR(
        run_script({}, R"("$@" --drop-cache >"$0.cold" && "$@" >"$0.hot" && "$@" >"$0.again")",
                   "original", sample_.root));
    RETURN_IF_ERROR(take("original", trial_.files));
    if (is_memory(sample_.root)) {
      trial_.files.cold_ns = 0;
      trial_.notes.emplace_back("the dataset is in memory (tmpfs), so there is no cold run");
    } else {
      trial_.notes.emplace_back(
          "cold: the files' bytes were dropped from the page cache, their names were not");
    }
    return {};
  }

  Status try_packed() {
    drop_cache(folder_.path() / "packs");
    if (is_memory(folder_.path())) {
      trial_.notes.emplace_back(
          "the packed sample was in memory (tmpfs); --scratch chooses another place");
    }
    const std::string at = folder_.path() / "at";
    ASSIGN_OR_RETURN(
        const std::string printed,
        run_script({program_, "store", "run", "--pack", folder_.path() / "packs", "--at", at, "--"},
                   R"("$@" >"$0.cold" && "$@" >"$0.hot" && "$@" >"$0.again")", "store", at));
    if (!printed.empty()) trial_.notes.push_back(printed.substr(0, printed.find('\n')));
    return take("store", trial_.store);
  }

  const std::string program_;
  const std::string trace_;
  const Sample sample_;
  const TemporaryDirectory folder_;
  advise::Trial trial_;
};

// A pack needs little more than its files; half of the space is left to others.
uint64_t room_in(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  const uint64_t free_bytes = error ? 0 : space.available / 2;
  return std::min(free_bytes, store::default_capacity(store::kLocalDefault));
}

}  // namespace

Result<advise::Trial> try_store(const TryOptions& options) {
  const PoliteInterruption while_trying;  // the sample is removed, and nothing goes on alone
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail_os(error.value(), "cannot find this program");
  if (options.trace.ends_with(".json") && fs::is_regular_file(options.trace, error)) {
    return fail(Errc::kInvalidArgument,
                "{} is a saved profile; the calls of the job are only in its trace",
                printable(options.trace));
  }
  std::vector<std::string> files;
  {
    ASSIGN_OR_RETURN(const interop::OpenedJob job,
                     interop::open_job({.title = options.trace, .paths = {options.trace}}));
    ASSIGN_OR_RETURN(const replay::Plan plan, replay::make_plan(job.trace, {}));
    files = data_files(plan);
  }
  const fs::path parent =
      options.parent ? fs::path(*options.parent) : fs::temp_directory_path(error);
  ASSIGN_OR_RETURN(TemporaryDirectory folder,
                   TemporaryDirectory::create(fs::absolute(parent, error), "millrace-try-"));
  ASSIGN_OR_RETURN(Sample sample, choose_sample(std::move(files), room_in(folder.path())));
  return Trying(program, options.trace, std::move(sample), std::move(folder)).run();
}

}  // namespace millrace::cli
