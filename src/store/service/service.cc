#include "store/service/service.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/concurrency/thread.h"
#include "base/io/atomic_file.h"
#include "base/io/directory.h"
#include "base/io/mounts.h"
#include "base/system/cpus.h"
#include "base/system/memory.h"
#include "base/text/fields.h"
#include "base/text/json.h"
#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "store/client/service_client.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::StoreReply;
using wire::StoreRequest;

constexpr size_t kThreadsMin = 4;
constexpr size_t kThreadsMinOnSeveralNodes = 16;  // each may wait for a peer
constexpr size_t kThreadsMax = 64;
constexpr size_t kThreadsAhead = 4;  // fetch before a loader asks
constexpr uint64_t kLinesMax = 100;  // a damaged partition must not fill the log
constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{10};

Status set_path(char (&out)[wire::kStorePathBytes], const fs::path& path) {
  const std::string& text = path.native();
  if (text.size() < sizeof(out) && text.find('\0') == std::string::npos) {
    std::memcpy(out, text.c_str(), text.size() + 1);
    return {};
  }
  return fail(Errc::kInvalidArgument, "{}: the path is longer than {} bytes", printable(text),
              sizeof(out) - 1);
}

// Absolute, without "." and "..", and without a slash at the end.
Result<fs::path> normal_path(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::absolute(path, error).lexically_normal();
  if (error) return fail_os(error.value(), "cannot find the current directory");
  if (!out.has_filename()) out = out.parent_path();
  if (!out.has_relative_path()) {
    return fail(Errc::kInvalidArgument, "'{}' cannot be the root of a store; choose a directory",
                printable(path.string()));
  }
  return out;
}

bool is_same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

bool is_in_memory(const fs::path& path) {
  std::error_code error;
  const auto mount = mount_of(fs::canonical(path, error));
  return mount && (mount->file_system == "tmpfs" || mount->file_system == "ramfs");
}

// Takes one request. Returns 1: there is one; 0: none is waiting; -1: the client is gone, or does
// not speak our language.
int receive(int fd, StoreRequest& request) {
  const ssize_t size = ::recv(fd, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  const bool is_known = size == sizeof(request) && request.magic == wire::kStoreMessageMagic &&
                        request.version == wire::kStoreMessageVersion &&
                        (request.kind == wire::StoreRequestKind::kMaterialise ||
                         request.kind == wire::StoreRequestKind::kPlace ||
                         request.kind == wire::StoreRequestKind::kFollow);
  return is_known ? 1 : -1;
}

}  // namespace

uint64_t default_capacity(const fs::path& local) {
  struct statvfs status{};
  if (::statvfs(local.c_str(), &status) != 0) return 0;
  uint64_t free_bytes = uint64_t{status.f_bavail} * status.f_frsize;
  if (is_in_memory(local)) {
    free_bytes = std::min(free_bytes, memory_available_bytes().value_or(free_bytes));
    free_bytes = std::min(free_bytes, memory_limit_bytes().value_or(free_bytes));
  }
  return free_bytes / 2;
}

Result<std::unique_ptr<Service>> Service::start(ServiceOptions options,
                                                std::optional<PeersOptions> peers) {
  ASSIGN_OR_RETURN(options.root, normal_path(options.root));
  // Clients have another working directory.
  std::error_code error;
  options.packs = fs::absolute(options.packs, error);
  if (error) return fail_os(error.value(), "cannot find the current directory");
  ASSIGN_OR_RETURN(PackReader reader, PackReader::open(options.packs));
  ASSIGN_OR_RETURN(NodeFolder folder, NodeFolder::create(options.local, options.job));
  if (options.capacity_bytes == 0) options.capacity_bytes = default_capacity(folder.path());
  std::unique_ptr<Service> service(
      new Service(std::move(options), std::move(reader), std::move(folder)));
  RETURN_IF_ERROR(service->prepare(std::move(peers)));
  return service;
}

Status Service::prepare(std::optional<PeersOptions> peers) {
  RETURN_IF_ERROR(publish_catalogue());
  RETURN_IF_ERROR(choose_directories());
  RETURN_IF_ERROR(open_sources(std::move(peers)));
  const uint64_t reserved = held_ != nullptr ? held_->reserved_bytes() : 0;
  const auto note_gone = [this](uint64_t size_bytes) {
    add_to_counter(folder_.counters().materialised, ~uint64_t{0});  // -1
    add_to_counter(folder_.counters().bytes, ~size_bytes + 1);
    add_to_counter(folder_.replaced(), 1);
  };
  ASSIGN_OR_RETURN(
      tree_, NodeTree::create(catalogue(), sources_,
                              {.tree = node() / wire::kStoreTreeDirectory,
                               .making = node() / wire::kStoreMakingDirectory,
                               .capacity_bytes = options_.capacity_bytes - reserved,
                               .on_made = [this](uint64_t n) { note_made(n); },
                               .on_gone = note_gone,
                               .on_problem = [this](const Error& e) { report(e.message()); }}));
  if (options_.is_fast) RETURN_IF_ERROR(make_arena());
  follower_ = std::make_unique<OrderFollower>(*tree_, node(), kThreadsAhead);
  RETURN_IF_ERROR(publish_settings());
  RETURN_IF_ERROR(open_buffer());
  RETURN_IF_ERROR(listen());
  // The state is last: clients that find it find everything else, too.
  RETURN_IF_ERROR(publish_state());
  if (held_ != nullptr) RETURN_IF_ERROR(held_->start());
  if (peers_ != nullptr) RETURN_IF_ERROR(peers_->start());
  return start_threads();
}

// The catalogue has been checked when it was opened. The copy is on local storage, and does not
// change when someone replaces the pack.
Status Service::publish_catalogue() const {
  const fs::path path = node() / wire::kStoreCatalogueFile;
  ASSIGN_OR_RETURN(File file, File::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  RETURN_IF_ERROR(file.write_at(0, catalogue().bytes()).within(printable(path.string())));
  return file.close();
}

// Clients recognise the directory of created files by the kernel's name.
Status Service::choose_directories() {
  std::error_code error;
  if (options_.origin.empty() && !catalogue().origin().empty()) {
    const fs::path packed(catalogue().origin());
    if (fs::is_directory(packed, error)) options_.origin = packed;
  } else if (!options_.origin.empty()) {
    ASSIGN_OR_RETURN(options_.origin, normal_path(options_.origin));
  }
  if (options_.save.empty()) {
    options_.save = options_.origin;
    if (options_.save.empty()) return {};
  } else {
    ASSIGN_OR_RETURN(options_.save, normal_path(options_.save));
    RETURN_IF_ERROR(make_directories(options_.save));
  }
  options_.save = fs::canonical(options_.save, error);
  if (error) {
    return fail_os(error.value(), "cannot use it for created files")
        .within(printable(options_.save.string()));
  }
  const auto [end, at] = std::mismatch(options_.root.begin(), options_.root.end(),
                                       options_.save.begin(), options_.save.end());
  if (end != options_.root.end() || at == options_.save.end()) return {};
  return fail(Errc::kInvalidArgument,
              "{} is below {}, where programs see the store; choose another --save",
              printable(options_.save.string()), printable(options_.root.string()));
}

// A service that was killed may have left one under the same name.
Status Service::open_buffer() {
  for (const fs::path& kept : find_kept(node().parent_path())) {
    report(fmt::format("{} has files of an earlier job; move them away, and remove it",
                       printable(kept.string())));
  }
  for (const BufferContents& left : find_left_buffers(node().parent_path())) {
    if (is_running(node_of(left.directory))) continue;  // of a service that is starting, or ours
    if (left.files.empty() && !left.has_queued) {
      static_cast<void>(flush_buffer(left.directory));  // removes it
      continue;
    }
    report(fmt::format("{} of an earlier job {} not in {}; save: millrace store flush --left {}",
                       counted(left.files.size(), "file", "files"),
                       left.files.size() == 1 ? "is" : "are", printable(left.owner.upper),
                       printable(left.directory.string())));
  }
  if (options_.buffer_globs.empty()) return {};
  if (options_.save.empty()) {
    return fail(Errc::kInvalidArgument,
                "--buffer needs a directory for its files: give --save DIR");
  }
  const BufferOwner owner{.upper = options_.save.string(),
                          .root = options_.root.string(),
                          .job = node().filename().string()};
  const fs::path directory = buffer_of(node());
  std::error_code error;
  if (fs::exists(directory, error)) {
    ASSIGN_OR_RETURN(const BufferContents left, read_buffer(directory));
    if (left.owner.upper != owner.upper) {
      return fail(Errc::kAlreadyExists,
                  "it has files of {}; save them first: millrace store flush --left {}",
                  printable(left.owner.upper), printable(directory.string()))
          .within(printable(directory.string()));
    }
  } else {
    RETURN_IF_ERROR(BufferJournal::create(directory, owner));
  }
  ASSIGN_OR_RETURN(drain_,
                   BufferDrain::start({.directory = directory,
                                       .log = [this](const std::string& line) { report(line); }}));
  return {};
}

Status Service::make_arena() {
  ASSIGN_OR_RETURN(
      arena_, NodeArena::create(catalogue(), sources_, *tree_,
                                {.directory = node(),
                                 .capacity_bytes = options_.capacity_bytes,
                                 .on_placed = [this](uint64_t n) { note_made(n); },
                                 .on_problem = [this](const Error& e) { report(e.message()); }}));
  return {};
}

Status Service::listen() {
  ASSIGN_OR_RETURN(const sockaddr_un address, socket_address(node()));
  const char* const path = address.sun_path;
  listener_ = File(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.is_open()) return fail_os(errno, "cannot create a socket");
  // Nobody connects before listen(), and the directory is private anyway.
  if (::bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path, 0600) != 0 || ::listen(listener_.fd(), kBacklog) != 0) {
    return fail_os(errno, "cannot listen").within(printable(path));
  }
  return {};
}

Status Service::publish_settings() const {
  if (peers_ != nullptr) {
    RETURN_IF_ERROR(write_file_atomically(node() / wire::kStorePeersFile,
                                          bytes_of(table_text(peers_->table())), 0600));
  }
  JsonWriter json;
  json.begin_object();
  json.field("packs", options_.packs.string());
  json.field("capacity_bytes", options_.capacity_bytes);
  json.field("save", options_.save.string());
  json.end_object();
  return write_file_atomically(node() / kSettingsFile, bytes_of(std::move(json).finish()), 0600);
}

Result<ServiceSettings> read_service_settings(const fs::path& node) {
  const fs::path path = node / kSettingsFile;
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(const Document document, parse_json(text, printable(path.string())));
  ServiceSettings settings;
  ASSIGN_OR_RETURN(Fields fields, Fields::of(document, document.root));
  RETURN_IF_ERROR(fields.require("packs", settings.packs));
  RETURN_IF_ERROR(fields.require("capacity_bytes", settings.capacity_bytes));
  RETURN_IF_ERROR(fields.require("save", settings.save));
  RETURN_IF_ERROR(fields.finish());
  return settings;
}

Status Service::publish_state() {
  wire::StoreState state{};
  RETURN_IF_ERROR(set_path(state.root, options_.root));
  RETURN_IF_ERROR(set_path(state.origin, options_.origin));
  RETURN_IF_ERROR(set_path(state.upper, options_.save));
  std::string globs;
  for (const std::string& glob : options_.buffer_globs) globs += glob + '\0';
  if (globs.size() >= sizeof(state.globs)) {
    return fail(Errc::kInvalidArgument, "the patterns of --buffer are longer than {} bytes",
                sizeof(state.globs) - 1);
  }
  globs.copy(state.globs, globs.size());
  if (options_.is_fast) state.flags |= wire::kStoreFast;
  return folder_.publish(state);
}

Status Service::start_threads() {
  RETURN_IF_ERROR(sockets_.open(listener_.fd()));
  const size_t count =
      options_.thread_count != 0
          ? options_.thread_count
          : std::clamp(2 * usable_cpu_count(),
                       peers_ != nullptr ? kThreadsMinOnSeveralNodes : kThreadsMin, kThreadsMax);
  ASSIGN_OR_RETURN(threads_, ::millrace::start_threads("store", count, [this] { work(); }));
  return {};
}

Service::~Service() { finish(); }

bool Service::finish() {
  if (follower_ == nullptr) return true;  // it did not start, or has ended
  sockets_.stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  follower_.reset();  // it reads from all sources
  ahead_.reset();
  peers_.reset();  // their questions are answered from everything else
  if (const auto foreign = foreign_files(node()); !foreign.empty()) {
    report(fmt::format(
        "{} created below {} in a way that the store does not see, such as '{}'; kept in {}",
        counted(foreign.size(), "file was", "files were"), printable(options_.root.string()),
        printable(foreign.front()), printable(kept_of(node()).string())));
  }
  if (drain_ == nullptr) return true;
  const std::vector<KeptFile> kept = drain_->finish();
  for (const KeptFile& file : kept) report(kept_text(file));
  return kept.empty();
}

void Service::work() {
  ask_for_short_slices();
  BlockCodec codec;
  while (const auto ready = sockets_.next()) {
    if (*ready == nullptr) {
      accept_clients();
    } else {
      serve(*static_cast<Connection*>(*ready), codec);
    }
  }
}

void Service::accept_clients() {
  for (;;) {
    const int fd = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // The client keeps waiting in the queue; without a pause, we would spin.
      if (errno != EAGAIN) std::this_thread::sleep_for(kPauseWithoutDescriptors);
      return;
    }
    auto connection = std::make_shared<Connection>(fd);
    if (!is_same_user(fd)) continue;  // closes it
    {
      const MutexLock lock(connections_mutex_);
      connections_.emplace(connection.get(), connection);
    }
    if (!sockets_.add(fd, connection.get())) drop(*connection);
  }
}

void Service::serve(Connection& connection, BlockCodec& codec) {
  StoreRequest request{};
  const int received = receive(connection.file.fd(), request);
  if (received < 0) {
    drop(connection);
    return;
  }
  // Before another thread can drop the connection, which ends the order.
  const bool follows = received > 0 && request.kind == wire::StoreRequestKind::kFollow;
  const int follow_error = follows ? follower_->follow(&connection, request.entry) : 0;
  const std::shared_ptr<Connection> kept = connection.shared_from_this();
  sockets_.arm(connection.file.fd(), &connection);
  if (received == 0) return;
  const auto answer = [this, kept, request](int os_error) { reply(*kept, request, os_error); };
  switch (request.kind) {
    case wire::StoreRequestKind::kMaterialise:
      follower_->look();
      tree_->make(request.entry, codec, answer);
      return;
    case wire::StoreRequestKind::kPlace:
      if (arena_ == nullptr) {
        answer(EINVAL);
      } else {
        arena_->place(request.entry, codec, answer);
      }
      return;
    case wire::StoreRequestKind::kFollow:
      answer(follow_error);
      return;
  }
}

// REQUIRES: no other thread can get an event of this connection.
void Service::drop(Connection& connection) {
  follower_->forget(&connection);
  sockets_.remove(connection.file.fd());
  const MutexLock lock(connections_mutex_);
  connections_.erase(&connection);
}

void Service::reply(Connection& connection, const StoreRequest& request, int os_error) {
  if (request.kind == wire::StoreRequestKind::kMaterialise) {
    if (os_error == ENOSPC) note_refusal();
    if (os_error == EIO) add_to_counter(folder_.counters().errors, 1);
  }
  const StoreReply reply{.magic = wire::kStoreMessageMagic,
                         .version = wire::kStoreMessageVersion,
                         .kind = request.kind,
                         .id = request.id,
                         .error = os_error,
                         .reserved = 0};
  const ssize_t sent =
      ::send(connection.file.fd(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
  // A client that does not take its replies loses its connection; a thread must not wait for it.
  if (sent != sizeof(reply)) ::shutdown(connection.file.fd(), SHUT_RDWR);
}

void Service::report(const std::string& line) {
  if (!options_.log) return;
  const MutexLock lock(log_mutex_);
  if (++line_count_ > kLinesMax) return;
  options_.log(line);
  if (line_count_ == kLinesMax) options_.log("further problems are only counted");
}

void Service::note_made(uint64_t size_bytes) {
  add_to_counter(folder_.counters().materialised, 1);
  add_to_counter(folder_.counters().bytes, size_bytes);
}

void Service::note_refusal() {
  if (has_refused_.exchange(true)) return;
  report(fmt::format("no room for more files (the capacity is {}): what is not there yet {}",
                     format_bytes(options_.capacity_bytes),
                     options_.origin.empty()
                         ? std::string("cannot be opened, because there is no --origin")
                         : fmt::format("is read from {}", printable(options_.origin.string()))));
}

}  // namespace millrace::store
