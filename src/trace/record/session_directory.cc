#include "trace/record/session_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/io/file.h"
#include "base/system/counter.h"
#include "trace/all/all_mode.h"
#include "trace/all/remote.h"

namespace millrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRingsEnding = ".rings";
constexpr auto kCalibration = std::chrono::milliseconds(20);

constexpr std::string_view kChildPagesBeginning = "areas-";
constexpr char kChildPageMark = '@';

// A recording in a child page: its file and the number of the page.
struct ChildPageName {
  std::string file;
  uint32_t number = 0;
};

std::optional<ChildPageName> child_page_of(const std::string& recording) {
  const size_t mark = recording.rfind(kChildPageMark);
  if (mark == std::string::npos || !recording.starts_with(kChildPagesBeginning))
    return std::nullopt;
  return ChildPageName{recording.substr(0, mark), static_cast<uint32_t>(std::strtoul(
                                                      recording.c_str() + mark + 1, nullptr, 10))};
}

// The child pages of a file that are in use.
std::vector<std::string> child_pages_in_use(const fs::path& path) {
  std::vector<std::string> found;
  const auto source = ByteSource::from_file(path.string());
  std::vector<std::byte> scratch;
  if (!source.ok()) return found;
  const auto head = source->view(0, sizeof(wire::ChildPagesHeader), scratch);
  if (!head.ok()) return found;
  wire::ChildPagesHeader header;
  std::memcpy(&header, head->data(), sizeof(header));
  if (header.magic != wire::kChildPagesMagic || header.version != wire::kRecordingVersion)
    return found;
  const uint32_t count = std::min(header.page_count, header.taken);
  for (uint32_t number = 0; number < count; ++number) {
    const auto page = source->view(wire::child_page_offset(number), sizeof(uint64_t), scratch);
    if (!page.ok()) break;
    uint64_t magic = 0;
    std::memcpy(&magic, page->data(), sizeof(magic));
    if (magic != 0) found.push_back(fmt::format("{}@{}", path.stem().string(), number));
  }
  return found;
}

// To change a file of a recording, which may come from somebody else: not through a link, and not
// one that has another name elsewhere.
Result<File> open_recorded(const fs::path& path) {
  ASSIGN_OR_RETURN(File file, File::open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1)
    return file;
  return fail(Errc::kPermission, "{}: is a link or a special file", path.native());
}

void free_space(const File& file, uint64_t offset, uint64_t size_bytes) {
  static_cast<void>(fallocate(file.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(offset), static_cast<off_t>(size_bytes)));
}

// Erases the magic number of a child page, so that it is not read again, and frees its space.
void remove_child_page(const fs::path& path, uint32_t number) {
  const auto file = open_recorded(path);
  if (!file.ok()) return;
  const uint64_t nothing = 0;
  const uint64_t offset = wire::child_page_offset(number);
  if (!file->write_at(offset, ByteView(reinterpret_cast<const std::byte*>(&nothing), 8)).ok())
    return;
  free_space(*file, offset, wire::kChildPageSizeBytes);
}

// "42-f4240", "areas-42-f4240" or "areas-42-f4240@3": the names of recordings.
bool is_recording_name(std::string_view name) {
  if (name.starts_with(kChildPagesBeginning)) name.remove_prefix(kChildPagesBeginning.size());
  const auto take = [&](std::string_view letters) {
    const size_t count = std::min(name.find_first_not_of(letters), name.size());
    name.remove_prefix(count);
    return count > 0;
  };
  constexpr std::string_view kDecimal = "0123456789";
  if (!take(kDecimal) || !take("-") || !take("0123456789abcdef")) return false;
  return name.empty() ||
         (take(std::string_view(&kChildPageMark, 1)) && take(kDecimal) && name.empty());
}

// What recorders write into a session; those that begin with "session." are left by killed ones.
bool is_recorded_name(const fs::path& file) {
  const std::string name = file.filename().native();
  if (name == "session" || name == "names" || name == "names.index") return true;
  constexpr std::string_view kOfKilled = "session.";  // and the process id
  if (name.starts_with(kOfKilled)) {
    return name.size() > kOfKilled.size() &&
           name.find_first_not_of("0123456789", kOfKilled.size()) == std::string::npos;
  }
  const fs::path ending = file.extension();
  const std::string recording = file.stem().native();
  if (!is_recording_name(recording)) return false;
  if (ending != ".log") return ending == kRingsEnding;
  // "2026-11.log" may be the user's. That of a recording has rings.
  const auto page = child_page_of(recording);
  std::error_code error;
  const std::string rings(kRingsEnding);
  return fs::exists(file.parent_path() / (recording + rings), error) ||
         (page && fs::exists(file.parent_path() / (page->file + rings), error));
}

std::string read_boot_id() {
  const auto text = read_file("/proc/sys/kernel/random/boot_id", 4096);
  if (!text.ok()) return "";
  return text->substr(0, text->find('\n'));
}

constexpr uint64_t kMapsMaxBytes = uint64_t{1} << 28;

// The file of a session that every recording process maps.
struct PageFile {
  fs::path path;
  uint64_t inode = 0;
};

PageFile page_file_of(const SessionDirectory& session) {
  std::error_code error;
  PageFile page{.path = fs::canonical(session.path() / "session", error)};
  struct stat status{};
  if (stat(page.path.c_str(), &status) == 0) page.inode = status.st_ino;
  return page;
}

// Removes the next word from a line of /proc/PID/maps.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// Whether the line is a shared, writable mapping of the page. Readers do not map the page. Compares
// the path or the inode: bind mounts change the path and overlays the inode. A false match only
// keeps the session as long as that process lives.
bool is_mapping_of(const PageFile& page, std::string_view line) {
  take_word(line);  // addresses
  const std::string_view permissions = take_word(line);
  take_word(line);  // offset
  take_word(line);  // device
  const std::string_view number = take_word(line);
  if (!permissions.starts_with("rw-s")) return false;
  uint64_t inode = 0;
  std::from_chars(number.data(), number.data() + number.size(), inode);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return inode == page.inode || line == page.path.native();
}

bool maps(uint32_t pid, const PageFile& page) {
  const auto text = read_file(fmt::format("/proc/{}/maps", pid), kMapsMaxBytes);
  if (!text.ok()) return false;
  constexpr std::string_view kLineEnd = "/session\n";
  const std::string_view all = *text;
  for (size_t at = all.find(kLineEnd); at != std::string_view::npos;
       at = all.find(kLineEnd, at + 1)) {
    const size_t begin = all.rfind('\n', at) + 1;  // npos + 1 is the first line
    if (is_mapping_of(page, all.substr(begin, at + kLineEnd.size() - 1 - begin))) return true;
  }
  return false;
}

bool is_started_for(uint32_t pid, const SessionDirectory& session) {
  constexpr std::string_view kVariable = "MILLRACE_TRACE_SESSION=";
  for (const std::string& entry : read_environment(pid)) {
    std::error_code error;
    if (entry.starts_with(kVariable) &&
        fs::equivalent(entry.substr(kVariable.size()), session.path(), error)) {
      return true;
    }
  }
  return false;
}

bool is_watcher(uint32_t pid) {
  const auto name = read_file(fmt::format("/proc/{}/comm", pid), 4096);
  return name.ok() && name->substr(0, name->find('\n')) == kWatcherName;
}

// Reading the mappings of a large process takes long, and most processes of a machine are older
// than any session. The start time in /proc includes time asleep, the monotonic clock does not: a
// process may seem younger than it is, never older.
bool began_before(uint32_t pid, const wire::ClockSample& first) {
  const uint64_t start_time = read_stat(pid).start_time;
  const auto ticks_per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return start_time != 0 && start_time / ticks_per_second + 1 < first.monotonic_ns / 1'000'000'000;
}

}  // namespace

const ThisHost& this_host() {
  static const ThisHost host = [] {
    utsname system{};
    const bool known = uname(&system) == 0;
    return ThisHost{known ? system.nodename : "", read_boot_id()};
  }();
  return host;
}

bool SessionDirectory::is_one(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "session", error);
}

Result<SessionDirectory> SessionDirectory::open(const fs::path& path) {
  const fs::path file = path / "session";
  ASSIGN_OR_RETURN(const ByteSource source, ByteSource::from_file(file.string()));
  ASSIGN_OR_RETURN(const wire::SessionPage page, read_session_page(source).within(file.string()));
  return SessionDirectory(path, page);
}

bool SessionDirectory::is_of_this_boot() const {
  const std::string boot_id(page_.boot_id, strnlen(page_.boot_id, sizeof(page_.boot_id)));
  return !boot_id.empty() && boot_id == this_host().boot_id;
}

std::vector<std::string> SessionDirectory::process_recordings() const {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (entry.path().extension() != kRingsEnding) continue;
    const std::string stem = entry.path().stem().string();
    if (!stem.starts_with(kChildPagesBeginning)) {
      found.push_back(stem);
    } else if (stem.find(kChildPageMark) == std::string::npos) {
      for (std::string& page : child_pages_in_use(entry.path())) found.push_back(std::move(page));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path SessionDirectory::rings_path(const std::string& recording) const {
  return path_ / (recording + std::string(kRingsEnding));
}

fs::path SessionDirectory::log_path(const std::string& recording) const {
  return path_ / (recording + ".log");
}

Result<ByteSource> SessionDirectory::open_rings(const std::string& recording) const {
  const auto page = child_page_of(recording);
  if (!page) return ByteSource::from_file(rings_path(recording).string());
  return ByteSource::from_piece({.path = rings_path(page->file).string(),
                                 .offset = wire::child_page_offset(page->number),
                                 .size_bytes = wire::kChildPageSizeBytes,
                                 .more_path = rings_path(recording).string()});
}

void SessionDirectory::remove(const std::string& recording) const {
  if (!is_recording_name(recording)) return;  // somebody has copied it
  std::error_code error;
  // The log first: one without rings may be somebody else's.
  fs::remove(log_path(recording), error);
  if (const auto page = child_page_of(recording))
    remove_child_page(rings_path(page->file), page->number);
  fs::remove(rings_path(recording), error);
}

void SessionDirectory::free_log_space(const std::string& recording, uint64_t size_bytes) const {
  const auto file = open_recorded(log_path(recording));
  if (file.ok() && size_bytes > 0) free_space(*file, 0, size_bytes);
}

bool remove_session(const fs::path& session) {
  std::error_code error;
  std::vector<fs::path> recorded;
  for (const auto& entry : fs::directory_iterator(session, error)) {
    const bool is_file = entry.symlink_status(error).type() == fs::file_type::regular;
    if (is_file && is_recorded_name(entry.path())) recorded.push_back(entry.path());
  }
  for (const fs::path& file : recorded) unlink(file.c_str());
  return rmdir(session.c_str()) == 0;
}

Result<wire::ProcessPage> SessionDirectory::read_process(const std::string& recording) const {
  const std::string path = rings_path(recording).string();
  ASSIGN_OR_RETURN(const ByteSource source, open_rings(recording));
  return read_process_page(source).within(path);
}

Result<ProcessRecording> SessionDirectory::read(const std::string& recording,
                                                const Consumed& consumed,
                                                ProcessRecording::Extent extent) const {
  const std::string path = rings_path(recording).string();
  ASSIGN_OR_RETURN(const ByteSource rings, open_rings(recording));
  const auto open_log = [&]() -> Result<std::unique_ptr<ByteSource>> {
    auto log = ByteSource::from_file(log_path(recording).string());
    if (log.ok()) return std::make_unique<ByteSource>(*std::move(log));
    if (log.error().code() == Errc::kNotFound) return std::unique_ptr<ByteSource>();
    return std::move(log).error();
  };
  return ProcessRecording::read(rings, open_log, consumed, extent).within(path);
}

Result<ByteSource> SessionDirectory::names() const {
  return ByteSource::from_file((path_ / "names").string());
}

Life SessionDirectory::life_of(const wire::ProcessPage& page,
                               const std::vector<wire::ProcessPage>& pages) const {
  if (!is_of_this_boot()) {
    const std::string host(page_.host, strnlen(page_.host, sizeof(page_.host)));
    // This machine before a reboot, or a process that recorded its own end.
    return host == this_host().name || page.exited != 0 ? Life::kEnded : Life::kElsewhere;
  }
  const ProcessStat stat = read_stat(page.pid);
  if (stat.state == '\0' || stat.state == 'Z' || stat.state == 'X') return Life::kEnded;
  if (page.start_time != 0 && stat.start_time != page.start_time) return Life::kEnded;
  for (const wire::ProcessPage& other : pages) {
    // A program recorded from inside and from outside has two pages, and neither ends the other.
    if (other.pid == page.pid && other.start_time == page.start_time &&
        other.recorded_from == page.recorded_from &&
        other.origin == wire::ProcessOrigin::kProgram && other.start_ticks > page.start_ticks) {
      return Life::kEnded;
    }
  }
  return Life::kRunning;
}

TickMap SessionDirectory::tick_map(const std::vector<wire::ClockSample>& kept,
                                   const std::vector<wire::ProcessPage>& pages) const {
  TickMap map(page_.counter, page_.first);
  for (const wire::ClockSample& sample : kept) map.add(sample);
  wire::ClockSample latest = page_.last;
  for (const wire::ProcessPage& page : pages) {
    for (const wire::ClockSample& sample : {page.first, page.last}) {
      if (sample.monotonic_ns > latest.monotonic_ns) latest = sample;
    }
  }
  // First add the samples from the time of the events: a recording that is read a day later must
  // not be stretched over that day.
  map.add(latest);
  static const wire::CounterSource own_counter = choose_counter().source;
  const bool same_counter =
      is_of_this_boot() &&
      (page_.counter == wire::CounterSource::kMonotonicClock || own_counter == page_.counter);
  if (same_counter) map.add(sample_clocks(page_.counter));
  if (!map.has_rate() && same_counter) {
    map.set_rate(calibrate_counter(page_.counter, kCalibration).scale);
  }
  return map;
}

std::vector<uint32_t> find_session_users(const SessionDirectory& session) {
  const PageFile page = page_file_of(session);
  const auto self = static_cast<uint32_t>(getpid());
  std::vector<uint32_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    uint32_t pid = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong != std::errc() || *end != '\0' || pid == self) continue;
    if (began_before(pid, session.page().first)) continue;
    if ((maps(pid, page) && !is_watcher(pid)) || is_started_for(pid, session)) found.push_back(pid);
  }
  return found;
}

}  // namespace millrace::trace
