#include "store/service.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/atomic_file.h"
#include "base/cpus.h"
#include "base/directory.h"
#include "base/fields.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/memory.h"
#include "base/mounts.h"
#include "base/phrases.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/units.h"
#include "wire/store_message.h"

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
constexpr char kSettingsFile[] = "service.json";
constexpr int kBacklog = 1024;
constexpr int kEndTries = 3;
constexpr std::chrono::milliseconds kEndPause{500};
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{10};

bool are_durable(const std::vector<WrittenFile>& files) {
  return std::all_of(files.begin(), files.end(),
                     [](const WrittenFile& file) { return file.state == WrittenState::kDurable; });
}

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
                         request.kind == wire::StoreRequestKind::kWatch ||
                         request.kind == wire::StoreRequestKind::kFlush ||
                         request.kind == wire::StoreRequestKind::kPlace ||
                         request.kind == wire::StoreRequestKind::kFollow ||
                         request.kind == wire::StoreRequestKind::kFetch ||
                         request.kind == wire::StoreRequestKind::kShare ||
                         request.kind == wire::StoreRequestKind::kTake ||
                         request.kind == wire::StoreRequestKind::kReplace);
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
  ASSIGN_OR_RETURN(NodeFolder folder, NodeFolder::create(options.local, options.log, options.job));
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
  const auto note_made = [this](uint64_t size_bytes) {
    add_to_counter(folder_.counters().materialised, 1);
    add_to_counter(folder_.counters().bytes, size_bytes);
  };
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
                               .on_made = note_made,
                               .on_gone = note_gone,
                               .on_problem = [this](const Error& e) { report(e.message()); }}));
  RETURN_IF_ERROR(start_written());
  if (options_.is_fast) RETURN_IF_ERROR(make_arena());
  follower_ = std::make_unique<OrderFollower>(*tree_, node(), kThreadsAhead);
  RETURN_IF_ERROR(publish_settings());
  RETURN_IF_ERROR(listen());
  // The state is last: clients that find it find everything else, too.
  RETURN_IF_ERROR(publish_state());
  if (held_ != nullptr) RETURN_IF_ERROR(held_->start());
  if (peers_ != nullptr) RETURN_IF_ERROR(peers_->start());
  return start_threads();
}

Status Service::start_written() {
  WrittenOptions options{.node = node(),
                         .save = options_.save,
                         .log = [this](const std::string& line) { report(line); }};
  if (peers_ != nullptr) {
    options.tell = [this](const NameNews& news) { return tell_peers(news); };
    remote_ = std::make_unique<RemoteNames>(
        catalogue(), *peers_,
        RemoteNamesOptions{
            .node = node(),
            .save = options_.save,
            .watch = [this](uint32_t entry) { written_->watch(entry); },
            .tell_again =
                [this](const std::string& path, const FileVersion& theirs) {
                  written_->announcer()->add_again(path, theirs);
                },
            .watch_made = [this](const std::string& directory) { written_->watch_made(directory); },
            .replace =
                [this](const std::string& path) { written_->announcer()->add_replaced(path); },
            .take = [this](const std::string& path,
                           const ToldName& file) { written_->announcer()->add_taken(path, file); },
            .expect_removal =
                [this](const std::string& path) {
                  written_->announcer()->add_expected_removal(path);
                },
            .expect_move =
                [this](const std::string& from, const std::string& to) {
                  written_->announcer()->add_expected_move(from, to);
                },
            .log_link = [this](const std::string& path,
                               const FileVersion& version) { written_->log_link(path, version); },
            .reserve = [this](uint64_t bytes) { return tree_->reserve(bytes); },
            .release = [this](uint64_t bytes) { tree_->release(bytes); },
            .log = [this](const std::string& line) { report(line); }});
    options.others = remote_.get();
  }
  ASSIGN_OR_RETURN(written_, Written::start(catalogue(), std::move(options)));
  return {};
}

// The catalogue has been checked when it was opened. The copy is on local storage, and does not
// change when someone replaces the pack.
Status Service::publish_catalogue() const {
  const fs::path path = node() / wire::kStoreCatalogueFile;
  ASSIGN_OR_RETURN(File file, File::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  RETURN_IF_ERROR(file.write_at(0, catalogue().bytes()).within(printable(path.string())));
  return file.close();
}

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
  } else {
    ASSIGN_OR_RETURN(options_.save, normal_path(options_.save));
    RETURN_IF_ERROR(make_directories(options_.save));
  }
  return {};
}

Status Service::make_arena() {
  const auto note_placed = [this](uint64_t size_bytes) {
    add_to_counter(folder_.counters().materialised, 1);
    add_to_counter(folder_.counters().bytes, size_bytes);
  };
  ASSIGN_OR_RETURN(
      arena_, NodeArena::create(catalogue(), sources_,
                                {.directory = node(),
                                 .capacity_bytes = options_.capacity_bytes,
                                 .reserve = [this](uint64_t n) { return tree_->reserve(n); },
                                 .release = [this](uint64_t n) { tree_->release(n); },
                                 .on_placed = note_placed,
                                 .on_problem = [this](const Error& e) { report(e.message()); }}));
  return {};
}

Status Service::listen() {
  const std::string path = (node() / wire::kStoreSocketFile).string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return fail(Errc::kInvalidArgument,
                "{}: the path of a socket has at most {} bytes; choose a shorter --local",
                printable(path), sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  listener_ = File(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.is_open()) return fail_os(errno, "cannot create a socket");
  // Nobody connects before listen(), and the directory is private anyway.
  if (::bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(listener_.fd(), kBacklog) != 0) {
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
  if (options_.is_fast) state.flags |= wire::kStoreFast;
  if (peers_ != nullptr) state.flags |= wire::kStoreShared;
  return folder_.publish(state);
}

Status Service::start_threads() {
  RETURN_IF_ERROR(sockets_.open(listener_.fd()));
  const size_t count =
      options_.thread_count != 0
          ? options_.thread_count
          : std::clamp(2 * usable_cpu_count(),
                       peers_ != nullptr ? kThreadsMinOnSeveralNodes : kThreadsMin, kThreadsMax);
  for (size_t i = 0; i < count; ++i) {
    auto thread = start_thread(fmt::format("store {}", i), [this] { work(); });
    if (thread.ok()) {
      threads_.push_back(*std::move(thread));
    } else if (threads_.empty()) {
      return std::move(thread).error();
    }
  }
  return {};
}

Service::~Service() { finish(); }

bool Service::finish() {
  if (written_ == nullptr) return true;  // it did not start, or has ended
  is_ending_ = true;
  if (written_->has_any()) written_->flush();  // files are still served meanwhile
  sockets_.stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  follower_.reset();  // it reads from all sources
  ahead_.reset();
  const bool is_saved = !written_->has_any() || save_written();
  std::unique_ptr<Written> ended;
  {
    const std::lock_guard lock(peers_mutex_);
    ended = std::move(written_);
  }
  ended.reset();
  peers_.reset();  // their questions are answered from everything else
  return is_saved;
}

// Tries again what could not be saved: the shared file system may have been away for a moment, and
// nobody can save these files later.
Result<std::vector<WrittenFile>> Service::flush_at_end() {
  for (int tries = 1;; ++tries) {
    written_->flush();
    auto files = list_written(node());
    const bool is_over = options_.save.empty() || tries == kEndTries || !files.ok();
    if (is_over || are_durable(*files)) return files;
    std::this_thread::sleep_for(kEndPause);
  }
}

// The job has ended. What cannot be saved is not removed, unless nobody wanted it to be saved.
bool Service::save_written() {
  const auto tell = [&](const std::string& line) {
    if (options_.log) options_.log(line);  // not counted: all of them matter
  };
  const auto files = flush_at_end();
  if (files.ok() && are_durable(*files)) return true;
  if (!options_.save.empty() || !files.ok()) {
    keep_written(node(), tell);
    return false;
  }
  tell(fmt::format("{} created below {} and are lost, because there is no --save and no --origin:",
                   counted(files->size(), "file was", "files were"),
                   printable(options_.root.string())));
  for (const std::string& line : describe_written(*files)) tell("  " + line);
  return true;  // as asked for
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
      const std::lock_guard lock(connections_mutex_);
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
    case wire::StoreRequestKind::kWatch:
      answer(written_->watch(request.entry));
      return;
    case wire::StoreRequestKind::kFlush:
      written_->flush(answer);
      return;
    case wire::StoreRequestKind::kPlace:
      if (arena_ == nullptr) {
        answer(EINVAL);
      } else {
        arena_->place(request.entry, codec, answer);
      }
      return;
    case wire::StoreRequestKind::kFetch:
      if (remote_ == nullptr) {
        answer(EINVAL);
      } else {
        remote_->fetch(request.entry, answer);
      }
      return;
    case wire::StoreRequestKind::kTake:
    case wire::StoreRequestKind::kReplace:
      if (remote_ == nullptr) {
        answer(EINVAL);
      } else {
        remote_->take(request.entry,
                      request.kind == wire::StoreRequestKind::kTake ? RemoteNames::Content::kSame
                                                                    : RemoteNames::Content::kEmpty,
                      answer);
      }
      return;
    case wire::StoreRequestKind::kFollow:
      answer(follow_error);
      return;
    case wire::StoreRequestKind::kShare:
      written_->share([answer] { answer(0); });
      return;
  }
}

// REQUIRES: no other thread can get an event of this connection.
void Service::drop(Connection& connection) {
  follower_->forget(&connection);
  sockets_.remove(connection.file.fd());
  const std::lock_guard lock(connections_mutex_);
  connections_.erase(&connection);
}

void Service::reply(Connection& connection, const StoreRequest& request, int os_error) {
  if (request.kind == wire::StoreRequestKind::kFetch && os_error == EIO) {
    add_to_counter(folder_.counters().errors, 1);
  }
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
  const std::lock_guard lock(log_mutex_);
  if (++line_count_ > kLinesMax) return;
  options_.log(line);
  if (line_count_ == kLinesMax) options_.log("further problems are only counted");
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
