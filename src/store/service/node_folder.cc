#include "store/service/node_folder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ranges>
#include <set>
#include <utility>

#include "base/io/atomic_file.h"
#include "base/io/directory.h"
#include "base/io/mapped_file.h"
#include "base/text/text.h"
#include "store/pack/open_below.h"
#include "store/peers/peer_table.h"
#include "wire/catalogue_view.h"
#include "wire/store_order.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameDigits = 16;
constexpr int kNameTries = 8;
constexpr char kNewStateFile[] = ".state";

bool is_node_name(const std::string& name) {
  return name.size() == kNameDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Waits if `flags` lacks LOCK_NB.
bool lock_directory(const File& directory, int flags) {
  int outcome = 0;
  do {
    outcome = ::flock(directory.fd(), LOCK_EX | flags);
  } while (outcome != 0 && errno == EINTR);
  return outcome == 0;
}

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

// Locks a new directory. Another service may take it for a stale one before it is locked, and
// remove it; then there is none.
std::optional<File> make_locked(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0) return std::nullopt;
  auto opened = File::open(path, kDirectoryFlags);
  if (!opened.ok() || !lock_directory(*opened, 0) || !is_same_file(*opened, path))
    return std::nullopt;
  return *std::move(opened);
}

constexpr std::string_view kKeptPrefix = "kept-";

// Removes what the service made from a folder with files of others.
void remove_around(const fs::path& folder, const std::vector<std::string>& foreign) {
  const fs::path tree = folder / wire::kStoreTreeDirectory;
  const std::set<std::string> others(foreign.begin(), foreign.end());
  std::vector<fs::path> own;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path() != tree) own.push_back(entry.path());
  }
  for (const auto& entry : fs::recursive_directory_iterator(tree, error)) {
    if (!others.contains(entry.path().native().substr(tree.native().size() + 1))) {
      own.push_back(entry.path());
    }
  }
  for (const fs::path& path : own | std::views::reverse) {
    if (path.parent_path() == folder) fs::remove_all(path, error);
    fs::remove(path, error);  // a directory only if it is empty
  }
}

// The state goes first: no client accepts the folder any more.
void remove_node(const fs::path& path) {
  std::error_code ignored;  // what stays is stale, and removed by the next service
  const std::vector<std::string> foreign = foreign_files(path);
  fs::remove(path / wire::kStoreStateFile, ignored);
  fs::remove(path / wire::kStoreSocketFile, ignored);
  if (foreign.empty()) {
    // The tree first: the catalogue has to know every file that an interrupted removal leaves.
    std::error_code error;
    fs::remove_all(path / wire::kStoreTreeDirectory, error);
    if (!error) fs::remove_all(path, ignored);
  } else if (rename_to_new(path, kept_of(path)) == 0) {
    remove_around(kept_of(path), foreign);
  }
}

// What a service and its programs write into the folder of a node, at its top.
bool is_name_in_node(const std::string& name) {
  const std::string written[] = {wire::kStoreCatalogueFile,
                                 wire::kStoreStateFile,
                                 wire::kStoreSocketFile,
                                 wire::kStoreTreeDirectory,
                                 wire::kStoreMakingDirectory,
                                 wire::kStorePacksDirectory,
                                 wire::kStorePeersFile,
                                 wire::kStoreArenaFile,
                                 wire::kStorePlacesFile,
                                 kSettingsFile,
                                 kLogFile,
                                 kNewStateFile,
                                 "empty"};
  const auto is_it = [&](const std::string& own) {
    return name == own || is_temporary_name(name, own);
  };
  return std::ranges::any_of(written, is_it) || name.starts_with(wire::kStoreOrderFile) ||
         name.starts_with("told-");
}

// Whether nothing in the folder is somebody else's. The name of the folder could be a coincidence.
bool is_node(const fs::path& path) {
  std::error_code error;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (!is_name_in_node(entries->path().filename().native())) return false;
  }
  return !error;
}

bool remove_if_stale(const fs::path& path) {
  auto opened = File::open(path, kDirectoryFlags);
  if (!opened.ok() || !lock_directory(*opened, LOCK_NB) || !is_node(path)) return false;
  remove_node(path);
  return true;
}

Status check_state(const wire::StoreState& state, size_t size_bytes) {
  if (size_bytes != sizeof(state)) {
    return fail(Errc::kCorrupt, "has {} bytes, but the state of a store has {}", size_bytes,
                sizeof(state));
  }
  if (const char* problem = wire::problem_of(state)) return fail(Errc::kCorrupt, "{}", problem);
  return {};
}

}  // namespace

fs::path nodes_directory(const fs::path& local) {
  return local / fmt::format("millrace-store-{}", ::geteuid());
}

fs::path buffer_of(const fs::path& node) {
  return node.parent_path() / (wire::kStoreBufferPrefix + node.filename().string());
}

fs::path node_of(const fs::path& buffer) {
  return buffer.parent_path() /
         buffer.filename().string().substr(sizeof(wire::kStoreBufferPrefix) - 1);
}

// Without a catalogue, no file of the tree is known to be ours.
std::vector<std::string> foreign_files(const fs::path& node) {
  wire::CatalogueView catalogue;
  const auto mapped = MappedFile::open(node / wire::kStoreCatalogueFile);
  if (mapped.ok()) catalogue.open(mapped->bytes().data(), mapped->bytes().size());
  const fs::path tree = node / wire::kStoreTreeDirectory;
  std::vector<std::string> foreign;
  std::error_code error;
  fs::recursive_directory_iterator entries(tree, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    if (entries->is_directory(error) && !entries->is_symlink(error)) continue;
    std::string relative = entries->path().native().substr(tree.native().size() + 1);
    const uint32_t index = catalogue.find(relative);
    if (index == wire::kNoEntry || catalogue.entry(index).kind == wire::EntryKind::kDirectory) {
      foreign.push_back(std::move(relative));
    }
  }
  return foreign;
}

fs::path kept_of(const fs::path& node) {
  return node.parent_path() / (std::string(kKeptPrefix) + node.filename().string());
}

std::vector<fs::path> find_kept(const fs::path& parent) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (entry.path().filename().native().starts_with(kKeptPrefix)) found.push_back(entry.path());
  }
  return found;
}

bool is_readable_within(int fd, std::chrono::milliseconds patience) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, static_cast<int>(patience.count())) == 1;
}

// The 22nd field. The second is the name of the program in parentheses, which may contain both
// spaces and parentheses.
uint64_t process_start_time(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text.ok()) return 0;
  size_t at = text->rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text->find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text->c_str() + at, nullptr, 10);
}

Result<NodeFolder> NodeFolder::create(const fs::path& local, const std::string& job) {
  const fs::path directory = nodes_directory(local);
  RETURN_IF_ERROR(make_private_directory(directory));
  remove_stale_nodes(local);
  if (!job.empty() && !is_node_name(job)) {
    return fail(Errc::kInvalidArgument, "'{}' is not the name of a store: it has {} hex digits",
                printable(job), kNameDigits);
  }
  for (int tries = 0; tries < kNameTries; ++tries) {
    const fs::path path = directory / (job.empty() ? random_job_name() : job);
    auto lock = make_locked(path);
    if (!lock) continue;
    NodeFolder made(path, *std::move(lock));
    for (const char* name : {wire::kStoreTreeDirectory, wire::kStoreMakingDirectory}) {
      RETURN_IF_ERROR(make_directories(path / name));
    }
    return made;
  }
  return fail_os(errno, "cannot create a directory in it").within(printable(directory.string()));
}

NodeFolder::NodeFolder(NodeFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lock_(std::move(other.lock_)),
      state_(std::exchange(other.state_, nullptr)) {}

NodeFolder::~NodeFolder() {
  if (state_ != nullptr) ::munmap(state_, sizeof(*state_));
  if (!path_.empty()) remove_node(path_);
}

Status NodeFolder::publish(wire::StoreState state) {
  state.magic = wire::kStoreStateMagic;
  state.version = wire::kStoreStateVersion;
  state.service_pid = static_cast<uint32_t>(::getpid());
  state.service_start_time = process_start_time(::getpid());
  if (state.service_start_time == 0) {  // end_node() would not know the service
    return fail(Errc::kIo, "cannot read in /proc/self/stat when this process started");
  }
  const fs::path temporary = path_ / kNewStateFile;
  ASSIGN_OR_RETURN(File file, File::open(temporary, O_RDWR | O_CREAT | O_EXCL, 0600));
  RETURN_IF_ERROR(file.write_at(0, std::as_bytes(std::span(&state, 1))));
  void* const mapped =
      ::mmap(nullptr, sizeof(state), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (mapped == MAP_FAILED) return fail_os(errno, "cannot map the state");
  state_ = static_cast<wire::StoreState*>(mapped);
  if (::rename(temporary.c_str(), (path_ / wire::kStoreStateFile).c_str()) != 0) {
    return fail_os(errno, "cannot rename the state");
  }
  return {};
}

void add_to_counter(uint64_t& counter, uint64_t amount) {
  std::atomic_ref<uint64_t>(counter).fetch_add(amount, std::memory_order_relaxed);
}

bool is_running(const fs::path& node) {
  auto opened = File::open(node, kDirectoryFlags);
  return opened.ok() && !lock_directory(*opened, LOCK_NB);
}

Result<NodeStatus> read_node(const fs::path& path) {
  NodeStatus node{.path = path};
  const fs::path name = path / wire::kStoreStateFile;
  const std::string shown = printable(name.string());
  ASSIGN_OR_RETURN(const File file, File::open(name, O_RDONLY | O_NOFOLLOW));
  ASSIGN_OR_RETURN(
      const size_t size_bytes,
      file.read_at(0, std::as_writable_bytes(std::span(&node.state, 1))).within(shown));
  RETURN_IF_ERROR(check_state(node.state, size_bytes).within(shown));
  node.is_running = is_running(path);
  return node;
}

std::vector<NodeStatus> find_nodes(const fs::path& local) {
  std::vector<NodeStatus> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(nodes_directory(local), error)) {
    if (!is_node_name(entry.path().filename().string())) continue;
    auto node = read_node(entry.path());
    if (node.ok() && node->is_running) found.push_back(*std::move(node));
  }
  return found;
}

Status end_node(const NodeStatus& node, std::chrono::milliseconds patience) {
  const auto pid = static_cast<pid_t>(node.state.service_pid);
  if (node.is_running) {
    const File process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    // The descriptor first, then the start time: the PID cannot change its owner in between.
    const bool is_service = process.is_open() && node.state.service_start_time != 0 &&
                            process_start_time(pid) == node.state.service_start_time;
    if (!is_service) {
      return fail(Errc::kNotFound,
                  "{}: its service runs, but process {} is not it: it is in another container; end "
                  "it there",
                  printable(node.path.string()), pid);
    }
    if (::syscall(SYS_pidfd_send_signal, process.fd(), SIGTERM, nullptr, 0) != 0) {
      return fail_os(errno, fmt::format("cannot end process {}", pid));
    }
    if (!is_readable_within(process.fd(), patience)) {
      ::syscall(SYS_pidfd_send_signal, process.fd(), SIGKILL, nullptr, 0);
      is_readable_within(process.fd(), patience);
    }
  }
  std::error_code error;
  if (fs::exists(node.path, error) && !remove_if_stale(node.path)) {
    return fail(Errc::kIo, "{}: could not be removed; remove it by hand",
                printable(node.path.string()));
  }
  return {};
}

size_t remove_stale_nodes(const fs::path& local) {
  size_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(nodes_directory(local), error)) {
    const bool is_node = is_node_name(entry.path().filename().string());
    if (is_node && remove_if_stale(entry.path())) ++count;
  }
  return count;
}

}  // namespace millrace::store
