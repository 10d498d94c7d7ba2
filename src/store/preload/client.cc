#include "store/preload/client.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>

#include "hook/syscall.h"
#include "store/preload/fast.h"

namespace millrace::store {

constinit Client client;
constinit std::atomic<Phase> phase{Phase::kNew};

namespace {

// Null if it cannot be mapped. `least` is the smallest valid size.
void* map_file(std::string_view name, int flags, size_t least, size_t* size_bytes) {
  const hook::Scratch<RealPath> path;
  if (!path) return nullptr;
  Text(path->text).add(client.node).add("/").add(name);
  const int fd = hook::sys_open(path->text, flags);
  if (fd < 0) return nullptr;
  struct stat status;
  void* memory = nullptr;
  if (hook::sys_fstat(fd, &status) == 0 && static_cast<size_t>(status.st_size) >= least) {
    *size_bytes = static_cast<size_t>(status.st_size);
    const int protection = flags == O_RDWR ? PROT_READ | PROT_WRITE : PROT_READ;
    memory = hook::sys_mmap(*size_bytes, protection, MAP_SHARED, fd, 0);
  }
  hook::sys_close(fd);
  return memory;
}

// Null, or what is wrong.
const char* open_state() {
  size_t size_bytes = 0;
  void* memory = map_file(wire::kStoreStateFile, O_RDWR, sizeof(wire::StoreState), &size_bytes);
  if (memory == nullptr) return "its file 'state' cannot be mapped";
  auto* state = static_cast<wire::StoreState*>(memory);
  if (wire::problem_of(*state) != nullptr)
    return "its file 'state' is damaged, or of another build";
  client.root = state->root;
  client.origin = state->origin;
  client.upper = state->upper;
  while (client.root.size() > 1 && client.root.back() == '/') client.root.remove_suffix(1);
  while (!client.origin.empty() && client.origin.back() == '/') client.origin.remove_suffix(1);
  if (client.root.size() < 2) return "its root is not a usable path";
  client.state = state;
  return nullptr;
}

const char* open_catalogue() {
  size_t size_bytes = 0;
  const void* memory = map_file(wire::kStoreCatalogueFile, O_RDONLY, 1, &size_bytes);
  if (memory == nullptr) return "its catalogue cannot be mapped";
  return client.catalogue.open(memory, size_bytes);
}

// Reads a directory's attributes, and its name without links. The length of the name; negative: it
// has none.
long look_at_directory(const char* path, struct stat& status, char* out, size_t room) {
  const int fd = hook::sys_open(path, O_PATH | O_DIRECTORY);
  if (fd < 0) return fd;
  long size = hook::sys_fstat(fd, &status);
  if (size == 0) size = read_descriptor_link(fd, out, room);
  hook::sys_close(fd);
  return size;
}

const char* look_at_tree() {
  const hook::Scratch<RealPath> path;
  if (!path) return "there is no memory";
  Text(path->text).add(client.node).add("/").add(wire::kStoreTreeDirectory);
  struct stat status;
  const long size =
      look_at_directory(path->text, status, client.tree_text, sizeof(client.tree_text));
  constexpr long kSuffix = sizeof(wire::kStoreTreeDirectory);  // with the slash before it
  if (size <= kSuffix || size >= static_cast<long>(sizeof(client.tree_text))) {
    return "it has no usable directory 'tree'";
  }
  client.tree = {client.tree_text, static_cast<size_t>(size)};
  client.node = {client.tree_text, static_cast<size_t>(size - kSuffix)};
  client.tree_device = status.st_dev;
  client.user = status.st_uid;
  client.group = status.st_gid;
  struct stat upper;
  if (!client.upper.empty() && hook::sys_lstat(client.state->upper, &upper) == 0) {
    client.upper_device = upper.st_dev;
  }
  // Minor numbers of the kernel have 20 bits.
  const uint64_t identity = client.catalogue.header().identity;
  client.shown_device = makedev(0, 0x100000u | static_cast<uint32_t>(identity & 0xfffff));
  return nullptr;
}

// Without the two files, programs read real files as in the other mode.
void open_arena() {
  if ((client.state->flags & wire::kStoreFast) == 0) return;
  const size_t least = uint64_t{client.catalogue.entry_count()} * sizeof(uint64_t);
  size_t places_bytes = 0;
  size_t arena_bytes = 0;
  void* places = map_file(wire::kStorePlacesFile, O_RDONLY, least, &places_bytes);
  if (places == nullptr) return;
  void* arena = map_file(wire::kStoreArenaFile, O_RDONLY, 1, &arena_bytes);
  if (arena == nullptr) return;
  hook::sys_madvise(arena, arena_bytes, MADV_DONTDUMP);
  client.places = static_cast<uint64_t*>(places);
  client.arena_bytes = arena_bytes;
  client.arena = static_cast<const std::byte*>(arena);
}

// It is beside the folder of the node: "LOCAL/millrace-store-UID/buffer-JOB".
void find_buffer() {
  if (client.state->globs[0] == '\0' || client.upper.empty()) return;
  size_t slash = client.node.size();
  while (slash > 0 && client.node[slash - 1] != '/') --slash;
  Text name(client.buffer_text);
  name.add({client.node.data(), slash}).add(wire::kStoreBufferPrefix);
  name.add({client.node.data() + slash, client.node.size() - slash});
  client.buffer.upper = client.upper;
  client.buffer.globs = {client.state->globs, sizeof(client.state->globs)};
  client.buffer.directory = {client.buffer_text, name.size()};
  const uint32_t deadline_ms = client.service.deadline_ms;
  if (deadline_ms < client.buffer.patience_ms) client.buffer.patience_ms = deadline_ms;
}

// The kernel's name of the directory above the root, and the root's own name.
void find_real_root() {
  const hook::Scratch<RealPath> path;
  if (!path) return;
  size_t parent = client.root.size();
  while (parent > 1 && client.root[parent - 1] != '/') --parent;
  Text(path->text).add({client.root.data(), parent});
  struct stat status;
  const long size = look_at_directory(path->text, status, path->text, sizeof(path->text) - 1);
  if (size <= 1 || size + 258 > static_cast<long>(sizeof(client.real_root_text))) return;
  Text name(client.real_root_text);
  name.add({path->text, static_cast<size_t>(size)}).add("/");
  name.add({client.root.data() + parent, client.root.size() - parent});
  const std::string_view found = {client.real_root_text, name.size()};
  if (found != client.root) client.real_root = found;
}

const char* open_node(const char* node) {
  client.node = node;
  while (client.node.size() > 1 && client.node.back() == '/') client.node.remove_suffix(1);
  const char* problem = open_state();
  if (problem == nullptr) problem = open_catalogue();
  if (problem == nullptr) problem = look_at_tree();
  if (problem == nullptr) {
    find_real_root();
    find_buffer();
    open_arena();
  }
  return problem;
}

const char* variable(const char* name) {
  return hook::find_variable(environ, name, std::strlen(name));
}

// Parent and child share the offset of a descriptor.
void before_fork() { make_all_real(Which::kAll); }

void in_child() { client.pid.store(hook::sys_getpid(), std::memory_order_relaxed); }

// The system calls of ServiceLine.
struct OwnCalls {
  static int socket() {
    return static_cast<int>(hook::own_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  }
  static void limit_sending(int fd, const timeval& time) {
    hook::own_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, hook::word(&time), sizeof(time));
  }
  static int connect(int fd, const sockaddr_un& address) {
    return static_cast<int>(hook::own_call(SYS_connect, fd, hook::word(&address), sizeof(address)));
  }
  static long send(int fd, const wire::StoreRequest& request) {
    return hook::own_call(SYS_sendto, fd, hook::word(&request), sizeof(request), MSG_NOSIGNAL);
  }
  static long wait(pollfd& waiting, timespec& time) {
    return hook::own_call(SYS_ppoll, hook::word(&waiting), 1, hook::word(&time), 0, 8);
  }
  static long receive(int fd, wire::StoreReply& reply) {
    return hook::own_call(SYS_recvfrom, fd, hook::word(&reply), sizeof(reply),
                          MSG_DONTWAIT | MSG_TRUNC);
  }
  static void close(int fd) { hook::sys_close(fd); }
};

// fstat of what was opened there must agree with stat.
void find_origin_device() {
  if (client.origin_device.load(std::memory_order_relaxed) != 0) return;
  struct stat status;
  const long found = hook::own_call(SYS_newfstatat, AT_FDCWD, hook::word(client.state->origin),
                                    hook::word(&status), 0);
  if (found == 0) client.origin_device.store(status.st_dev, std::memory_order_relaxed);
}

constexpr uint64_t kComparedBytesMax = 1 << 20;  // half a millisecond for each 128 KiB

bool is_full(int error) { return error == ENOSPC || error == EDQUOT; }

bool has_packed_time(const wire::CatalogueEntry& packed, const timespec& found) {
  constexpr int64_t kSecond = 1'000'000'000;
  if (found.tv_sec != packed.mtime_ns / kSecond) return false;
  const int64_t fraction = packed.mtime_ns % kSecond;
  return fraction == 0 || fraction == found.tv_nsec;  // archives may have whole seconds
}

bool has_packed_bytes(const wire::CatalogueEntry& packed, int fd) {
  const auto size = static_cast<size_t>(packed.size_bytes);
  if (size == 0) return true;
  void* memory = hook::sys_mmap(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == nullptr) return false;
  const bool is_same = hook::sys_pread(fd, memory, size, 0) == static_cast<long>(size) &&
                       wire::buffer_crc(memory, size) == packed.crc32c;
  hook::sys_munmap(memory, size);
  return is_same;
}

std::string_view reason(int error) {
  switch (error) {
    case ETIMEDOUT:
      return "did not answer in time";
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOENT:
      return "is not running";
    case ENOSPC:
    case EDQUOT:
      return "has no room left";
    default:
      return "could not provide it";
  }
}

// Says what the service did not do, with the name of the entry in a directory.
void say_service_failed(std::atomic<bool>& was_said, uint32_t entry, int error, const char* verb,
                        std::string_view directory, const char* end) {
  say_once(was_said, [&](Text& text) {
    const hook::Scratch<RealPath> path;
    if (!path || !join_path(directory, entry, path->text, sizeof(path->text))) return;
    text.add("the service of the store at ").add(client.node).add(" ").add(reason(error));
    text.add(": ").add(verb).add(path->text).add(" ").add(end);
    text.add(". This is reported once; millrace store status counts it\n");
  });
}

}  // namespace

bool start_client() {
  if (environ == nullptr) return false;  // too early; try again
  Phase expected = Phase::kNew;
  if (!phase.compare_exchange_strong(expected, Phase::kStarting)) return false;
  const char* node = variable(wire::kStoreVariable);
  if (node == nullptr || node[0] != '/') {
    phase.store(Phase::kOff, std::memory_order_release);
    return false;
  }
  client.service.deadline_ms = deadline_ms_of(variable(wire::kStoreDeadlineVariable));
  if (const char* problem = open_node(node); problem != nullptr) {
    phase.store(Phase::kOff, std::memory_order_release);
    // After `store down` nothing is left of the node, but the shell may still export its name.
    if (hook::sys_access(node, F_OK) == -ENOENT) return false;
    static constinit std::atomic<bool> was_said{false};
    say_once(was_said, [&](Text& text) {
      text.add("the store at ").add(node).add(" cannot be used: ").add(problem);
      text.add(". Is its service running? Try: millrace store status\n");
    });
    return false;
  }
  in_child();
  kept_environment.remember_own_library(wire::kStoreVariable, wire::kStoreVariable);
  pthread_atfork(&before_fork, nullptr, &in_child);
  phase.store(Phase::kActive, std::memory_order_release);
  return true;
}

int ask_for(uint64_t entry, wire::StoreRequestKind kind) {
  sockaddr_un address = {};
  const int node = write_address(client.node, wire::kStoreSocketFile, address);
  if (node < -1) return -node;
  const Answer answer = client.service.ask<OwnCalls>(address, entry, kind);
  if (node >= 0) hook::sys_close(node);
  return answer.error;
}

bool make_upper_directories(uint32_t directory) {
  const hook::Scratch<RealPath> path;
  if (directory == wire::kRootEntry || !path || !path->in_upper(directory)) return false;
  const size_t begin = client.upper.size() + 1;
  bool has_made = false;
  for (size_t end = begin;; ++end) {
    const char next = path->text[end];
    if (next != '/' && next != '\0') continue;
    path->text[end] = '\0';
    const uint32_t entry = client.catalogue.find({path->text + begin, end - begin});
    if (entry == wire::kNoEntry) return has_made;
    const unsigned mode = wire::stat_mode(client.catalogue.entry(entry)) & 07777;
    if (hook::sys_mkdir(path->text, mode) == 0) {
      has_made = true;
      // The umask of the program that came first is not for a directory of the catalogue.
      hook::own_call(SYS_fchmodat, AT_FDCWD, hook::word(path->text), static_cast<long>(mode));
    }
    if (next == '\0') return has_made;
    path->text[end] = next;
  }
}

void note_read_only() {
  static constinit std::atomic<bool> was_said{false};
  say_once(was_said, [](Text& text) {
    text.add("nothing can be created below ").add(client.root);
    text.add(": the store has no origin. Start it with --save DIR, the directory for new files. ");
    text.add("This is reported once\n");
  });
}

void note_fallback(uint32_t entry, int error) {
  count(client.state->counters.fallbacks);
  find_origin_device();
  static constinit std::atomic<bool> was_said{false};
  say_service_failed(was_said, entry, error, "reading ", client.origin, "instead");
}

void note_failure(uint32_t entry, int error, const char* why) {
  count(client.state->counters.errors);
  static constinit std::atomic<bool> was_said{false};
  say_service_failed(was_said, entry, error, "", client.tree, why);
}

int write_address(std::string_view directory, std::string_view name, sockaddr_un& out) {
  out = {.sun_family = AF_UNIX, .sun_path = {}};
  Text path(out.sun_path);
  if (directory.size() + 1 + name.size() < sizeof(out.sun_path)) {
    path.add(directory).add("/").add(name);
    return -1;
  }
  const hook::Scratch<RealPath> above;
  if (!above) return -ENOMEM;
  Text(above->text).add(directory);
  const int fd = hook::sys_open(above->text, O_PATH | O_DIRECTORY);
  if (fd >= 0) path.add("/proc/self/fd/").add(static_cast<uint64_t>(fd)).add("/").add(name);
  return fd == -1 ? -EACCES : fd;
}

const char* origin_difference(uint32_t entry, const char* path, int error) {
  const int fd = hook::sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return nullptr;
  const wire::CatalogueEntry packed = client.catalogue.entry(entry);
  const char* difference = nullptr;
  struct stat status;
  if (hook::sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    difference = "is not available, and is no file in the origin. Pack it again";
  } else if (static_cast<uint64_t>(status.st_size) != packed.size_bytes) {
    difference = "is not available, and has another size in the origin. Pack it again";
  } else if (const bool is_dated = has_packed_time(packed, status.st_mtim);
             packed.size_bytes > kComparedBytesMax || (is_dated && is_full(error))) {
    if (!is_dated) difference = "is not available, and was changed in the origin. Pack it again";
  } else if (!has_packed_bytes(packed, fd)) {
    difference = "is not available, and has other bytes in the origin. Pack it again";
  }
  hook::sys_close(fd);
  return difference;
}

bool join_path(std::string_view directory, uint32_t entry, char* out, size_t room) {
  if (directory.size() + 2 > room) return false;
  std::memcpy(out, directory.data(), directory.size());
  size_t size = directory.size();
  if (entry != wire::kRootEntry) out[size++] = '/';
  const size_t left = room - 1 - size;
  const size_t written = write_path(client.catalogue, entry, out + size, left);
  if (written >= left) return false;
  out[size + written] = '\0';
  return true;
}

Catalogued Client::catalogued() const {
  const auto read_link = [](std::string_view relative, char* out, size_t room) -> long {
    const hook::Scratch<RealPath> path;
    if (!path) return -ENOMEM;
    uint64_t id = 0;
    const Buffered found =
        client.has_buffer() ? look(client.buffer, relative, &id) : Buffered::kNotThere;
    if (found == Buffered::kRemoved) return -ENOENT;
    if (found == Buffered::kFile) return -EINVAL;
    Text(path->text).add(client.upper).add("/").add(relative);
    return hook::sys_readlink(path->text, out, room);
  };
  const auto find_buffered = [](std::string_view relative, char* out, size_t room) {
    uint64_t id = 0;
    return look(client.buffer, relative, &id) == Buffered::kFile &&
           write_data_path(client.buffer, id, out, room);
  };
  return {catalogue, root, {upper, +read_link, has_buffer() ? +find_buffered : nullptr}};
}

}  // namespace millrace::store

[[gnu::constructor]] static void start_of_library() { millrace::store::start_client(); }
