#include "store/preload/client.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "hook/environment.h"
#include "hook/say.h"
#include "hook/syscall.h"
#include "store/preload/exec_environment.h"
#include "store/preload/fast.h"
#include "store/preload/shown.h"
#include "store/preload/text.h"
#include "wire/store_name.h"

namespace millrace::store {

constinit Client client;
constinit std::atomic<Phase> phase{Phase::kNew};

namespace {

constinit std::atomic<bool> warned_fallback{false};
constinit std::atomic<bool> warned_failure{false};
constinit std::atomic<bool> warned_local{false};
constinit std::atomic<bool> warned_remote{false};
constinit std::atomic<uint64_t> next_request{1};

constexpr int kTakeTries = 8;  // of a name that changes all the time

struct Message {
  char text[3 * kPathBytes];
};

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Null if it cannot be mapped. `least` is the smallest valid size.
void* map_file(std::string_view name, int flags, size_t least, size_t* size_bytes) {
  const hook::Scratch<RealPath> path;
  if (!path) return nullptr;
  Text(path->text, sizeof(path->text)).add(client.node).add("/").add(name);
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

// The name of the tree without links, as /proc/self/fd shows it.
bool find_tree_name(int fd) {
  char link[40];
  Text(link, sizeof(link)).add("/proc/self/fd/").add(static_cast<uint64_t>(fd));
  const long size = hook::sys_readlink(link, client.tree_text, sizeof(client.tree_text));
  const size_t suffix = sizeof(wire::kStoreTreeDirectory);  // with the slash before it
  if (size <= static_cast<long>(suffix) || size >= static_cast<long>(sizeof(client.tree_text))) {
    return false;
  }
  client.tree = {client.tree_text, static_cast<size_t>(size)};
  client.node = {client.tree_text, static_cast<size_t>(size) - suffix};
  return true;
}

const char* look_at_tree() {
  const hook::Scratch<RealPath> path;
  if (!path) return "there is no memory";
  Text(path->text, sizeof(path->text)).add(client.node).add("/").add(wire::kStoreTreeDirectory);
  const int fd = hook::sys_open(path->text, O_PATH | O_DIRECTORY);
  struct stat status;
  const bool known = fd >= 0 && hook::sys_fstat(fd, &status) == 0 && find_tree_name(fd);
  if (fd >= 0) hook::sys_close(fd);
  if (!known) return "it has no usable directory 'tree'";
  client.tree_device = status.st_dev;
  client.user = status.st_uid;
  client.group = status.st_gid;
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

// The kernel's name of the directory above the root, and the root's own name.
void find_real_root() {
  const hook::Scratch<RealPath> path;
  if (!path) return;
  size_t parent = client.root.size();
  while (parent > 1 && client.root[parent - 1] != '/') --parent;
  Text(path->text, sizeof(path->text)).add({client.root.data(), parent});
  const int fd = hook::sys_open(path->text, O_PATH | O_DIRECTORY);
  if (fd < 0) return;
  char link[40];
  Text(link, sizeof(link)).add("/proc/self/fd/").add(static_cast<uint64_t>(fd));
  const long size = hook::sys_readlink(link, path->text, sizeof(path->text) - 1);
  hook::sys_close(fd);
  if (size <= 1 || size + 258 > static_cast<long>(sizeof(client.real_root_text))) return;
  Text name(client.real_root_text, sizeof(client.real_root_text));
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
    open_arena();
  }
  return problem;
}

uint32_t parse_number(const char* text, uint32_t otherwise) {
  if (text == nullptr || *text == '\0') return otherwise;
  uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    number = number * 10 + static_cast<uint64_t>(*text - '0');
    if (number > 3'600'000) return otherwise;
  }
  return *text == '\0' ? static_cast<uint32_t>(number) : otherwise;
}

const char* variable(const char* name) {
  return hook::find_variable(environ, name, std::strlen(name));
}

// Parent and child share the offset of a descriptor.
void before_fork() { make_all_real(Which::kAll); }

void in_child() { client.pid.store(hook::sys_getpid(), std::memory_order_relaxed); }

// A connected socket, or minus an errno value.
int connect_service() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t size = client.node.size() + 1 + sizeof(wire::kStoreSocketFile);
  int node = -1;
  if (size <= sizeof(address.sun_path)) {
    Text(address.sun_path, sizeof(address.sun_path))
        .add(client.node)
        .add("/")
        .add(wire::kStoreSocketFile);
  } else {
    // An address has only 107 characters.
    const hook::Scratch<RealPath> path;
    if (!path) return -ENOMEM;
    Text(path->text, sizeof(path->text)).add(client.node);
    node = hook::sys_open(path->text, O_PATH | O_DIRECTORY);
    if (node < 0) return node;
    Text(address.sun_path, sizeof(address.sun_path))
        .add("/proc/self/fd/")
        .add(static_cast<uint64_t>(node))
        .add("/")
        .add(wire::kStoreSocketFile);
  }
  const int fd =
      static_cast<int>(hook::own_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  int error = fd < 0 ? fd : 0;
  if (error == 0) {
    const auto deadline =
        timeval{.tv_sec = client.deadline_ms / 1000, .tv_usec = client.deadline_ms % 1000 * 1000};
    // The connection itself waits if the service accepts none.
    hook::own_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, hook::word(&deadline),
                   sizeof(deadline));
    do {
      error =
          static_cast<int>(hook::own_call(SYS_connect, fd, hook::word(&address), sizeof(address)));
    } while (error == -EINTR);
  }
  if (node >= 0) hook::sys_close(node);
  if (error == 0) return fd;
  if (fd >= 0) hook::sys_close(fd);
  return error;
}

// Waits for the reply to `request`. 0, or an errno value.
int receive_reply(int fd, const wire::StoreRequest& request, uint64_t deadline_ns) {
  for (;;) {
    const uint64_t now = now_ns();
    if (now >= deadline_ns) return ETIMEDOUT;
    const uint64_t left_ns = deadline_ns - now;
    timespec left = {.tv_sec = static_cast<time_t>(left_ns / 1'000'000'000u),
                     .tv_nsec = static_cast<long>(left_ns % 1'000'000'000u)};
    pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
    const long ready = hook::own_call(SYS_ppoll, hook::word(&waiting), 1, hook::word(&left), 0, 8);
    if (ready == -EINTR || ready == 0) continue;
    if (ready < 0) return static_cast<int>(-ready);
    wire::StoreReply reply = {};
    const long size =
        hook::own_call(SYS_recvfrom, fd, hook::word(&reply), sizeof(reply), MSG_DONTWAIT, 0, 0);
    if (size == -EAGAIN || size == -EINTR) continue;
    if (size < 0) return static_cast<int>(-size);
    if (size == 0) return ECONNRESET;
    if (size < static_cast<long>(offsetof(wire::StoreReply, reserved)) ||
        reply.magic != wire::kStoreMessageMagic || reply.version != wire::kStoreMessageVersion) {
      return EPROTO;
    }
    if (reply.id == request.id) return reply.error;
  }
}

int ask(const wire::StoreRequest& request, uint64_t deadline_ns) {
  const int fd = connect_service();
  if (fd < 0) return fd == -EAGAIN ? ETIMEDOUT : -fd;
  long sent = 0;
  do {
    sent =
        hook::own_call(SYS_sendto, fd, hook::word(&request), sizeof(request), MSG_NOSIGNAL, 0, 0);
  } while (sent == -EINTR);
  const int error = sent == static_cast<long>(sizeof(request))
                        ? receive_reply(fd, request, deadline_ns)
                    : sent == -EAGAIN ? ETIMEDOUT
                    : sent < 0        ? static_cast<int>(-sent)
                                      : EIO;
  hook::sys_close(fd);
  return error;
}

// fstat of what was opened there must agree with stat.
void find_origin_device() {
  if (client.origin_device.load(std::memory_order_relaxed) != 0) return;
  const int fd = hook::sys_open(client.state->origin, O_PATH | O_DIRECTORY);
  struct stat status;
  if (fd >= 0 && hook::sys_fstat(fd, &status) == 0) {
    client.origin_device.store(status.st_dev, std::memory_order_relaxed);
  }
  if (fd >= 0) hook::sys_close(fd);
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
  client.deadline_ms = parse_number(variable(wire::kStoreDeadlineVariable), wire::kStoreDeadlineMs);
  if (const char* problem = open_node(node); problem != nullptr) {
    phase.store(Phase::kOff, std::memory_order_release);
    const hook::Scratch<Message> message;
    if (message) {
      Text text(message->text, sizeof(message->text));
      text.add("millrace: the store at ").add(node).add(" cannot be used: ").add(problem);
      text.add(". Is its service running? Try: millrace store status\n");
      hook::say(message->text, text.size());
    }
    return false;
  }
  in_child();
  remember_environment();
  pthread_atfork(&before_fork, nullptr, &in_child);
  phase.store(Phase::kActive, std::memory_order_release);
  return true;
}

namespace {

// `silent_until_ns` is the time before which the service is not asked.
int ask_unless_silent(uint64_t entry, wire::StoreRequestKind kind,
                      std::atomic<uint64_t>& silent_until_ns) {
  const uint64_t begin = now_ns();
  if (begin < silent_until_ns.load(std::memory_order_relaxed)) return ETIMEDOUT;
  const uint64_t deadline_ns = uint64_t{client.deadline_ms} * 1'000'000u;
  const wire::StoreRequest request = {
      .magic = wire::kStoreMessageMagic,
      .version = wire::kStoreMessageVersion,
      .kind = kind,
      .id = next_request.fetch_add(1, std::memory_order_relaxed),
      .entry = entry,
  };
  const int error = ask(request, begin + deadline_ns);
  // Wait once, not for each file.
  if (error == ETIMEDOUT) {
    silent_until_ns.store(now_ns() + deadline_ns, std::memory_order_relaxed);
  }
  return error;
}

}  // namespace

int ask_for(uint64_t entry, wire::StoreRequestKind kind) {
  return ask_unless_silent(entry, kind, client.silent_until_ns);
}

// If other nodes are slow, this one still reads.
void share_names() {
  static constinit std::atomic<uint64_t> silent_until_ns{0};
  const int saved_errno = errno;
  ask_unless_silent(0, wire::StoreRequestKind::kShare, silent_until_ns);
  errno = saved_errno;
}

void announce_names(uint32_t directory) {
  // Some results are kept, as entry + 1.
  static constinit std::atomic<uint32_t> kept[256] = {};
  std::atomic<uint32_t>& place = kept[directory % 256];
  if (place.load(std::memory_order_relaxed) == directory + 1) return;
  const int saved_errno = errno;
  if (!client.has_written()) count(client.state->written);
  const int error = ask_for(directory, wire::StoreRequestKind::kWatch);
  if (error == 0) {
    place.store(directory + 1, std::memory_order_relaxed);
  } else if (!warned_local.exchange(true)) {
    const hook::Scratch<Message> message;
    if (message) {
      Text text(message->text, sizeof(message->text));
      text.add("millrace: the service of the store at ").add(client.node);
      text.add(" ").add(reason(error)).add(": what is created below ").add(client.root);
      text.add(" stays on this node. This is reported once\n");
      hook::say(message->text, text.size());
    }
  }
  errno = saved_errno;
}

void note_fallback(uint32_t entry, int error) {
  count(client.state->counters.fallbacks);
  find_origin_device();
  if (warned_fallback.exchange(true)) return;
  const hook::Scratch<Message> message;
  const hook::Scratch<RealPath> path;
  if (!message || !path || !path->in_origin(entry)) return;
  Text text(message->text, sizeof(message->text));
  text.add("millrace: the service of the store at ").add(client.node);
  text.add(" ").add(reason(error)).add(": reading ").add(path->text);
  text.add(" instead. This is reported once; millrace store status counts it\n");
  hook::say(message->text, text.size());
}

void note_failure(uint32_t entry, int error) {
  count(client.state->counters.errors);
  if (warned_failure.exchange(true)) return;
  const hook::Scratch<Message> message;
  const hook::Scratch<RealPath> path;
  if (!message || !path || !path->in_tree(entry)) return;
  Text text(message->text, sizeof(message->text));
  text.add("millrace: the service of the store at ").add(client.node);
  text.add(" ").add(reason(error)).add(": ").add(path->text);
  text.add(client.origin.empty() ? " is not available, and there is no origin"
                                 : " is not available, and the origin does not have it");
  text.add(". This is reported once; millrace store status counts it\n");
  hook::say(message->text, text.size());
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

namespace {

// A file whose bytes are on another node only cannot be had.
void note_remote_failure(std::string_view relative, const wire::RemoteName& name, int error) {
  if (warned_remote.exchange(true)) return;
  const hook::Scratch<Message> message;
  if (!message) return;
  Text text(message->text, sizeof(message->text));
  text.add("millrace: the service of the store at ").add(client.node);
  text.add(" ").add(reason(error)).add(": ").add(client.root).add("/").add(relative);
  text.add(" is not durable yet, and its bytes are only on the node of rank ").add(name.rank);
  text.add(". This is reported once; millrace store status lists what is lost\n");
  hook::say(message->text, text.size());
}

// 0, ESTALE: the name has changed, or EIO.
int fetch_remote(std::string_view relative, std::string_view target) {
  wire::RemoteName name;
  if (!wire::parse_remote_target(target, name)) return EIO;
  const int saved_errno = errno;
  const int error = ask_for(name.id, wire::StoreRequestKind::kFetch);
  errno = saved_errno;
  if (error == 0 || error == ESTALE) return error;
  note_remote_failure(relative, name, error);
  return EIO;
}

}  // namespace

int take_file(const char* real, bool needs_bytes) {
  const hook::Scratch<ShownTarget> target;
  if (!target) return ENOMEM;
  const int saved_errno = errno;
  int error = 0;
  wire::RemoteName name;
  for (int tries = 0; tries < kTakeTries; ++tries) {
    const std::string_view found = read_shown(real, *target);
    struct stat link;
    if (found.empty() || hook::sys_lstat(real, &link) != 0) return 0;  // the caller looks again
    wire::parse_remote_target(found, name);
    error = ask_for(link.st_ino,
                    needs_bytes ? wire::StoreRequestKind::kTake : wire::StoreRequestKind::kReplace);
    errno = saved_errno;
    if (error == 0) return 0;
    if (error != ESTALE) break;
  }
  if (!needs_bytes) {  // without the service, a new file begins here
    hook::sys_unlink(real);
    const int fd = hook::sys_open(real, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd >= 0) hook::sys_close(fd);
    return 0;
  }
  const std::string_view below = client.below_tree(real);
  note_remote_failure({below.data() + 1, below.size() - 1}, name, error);
  return error == ENOSPC ? ENOSPC : EIO;
}

Catalogued Client::catalogued() const {
  const auto read_link = [](std::string_view relative, char* out, size_t room) -> long {
    const hook::Scratch<RealPath> path;
    if (!path) return -ENOMEM;
    Text(path->text, sizeof(path->text)).add(client.tree).add("/").add(relative);
    return hook::sys_readlink(path->text, out, room);
  };
  return {catalogue, root, {tree, has_written() ? +read_link : nullptr, &fetch_remote}};
}

}  // namespace millrace::store

[[gnu::constructor]] static void start_of_library() { millrace::store::start_client(); }
