// RemoteNames, its second half: the bytes of the names.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "base/units.h"
#include "store/file_times.h"
#include "store/remote_names.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::PeerNamePiece;
using wire::PeerReadName;

constexpr uint64_t kNamePieceBytes = 1 << 20;
static_assert(kNamePieceBytes <= wire::kPeerMessageBytes / 2);
constexpr int kFetchTries = 4;  // of a file that changes
constexpr int kNewsTries = 10;  // of a file that was renamed or removed there
constexpr std::chrono::milliseconds kNewsPatience{100};

FileVersion version_of(const PeerNamePiece& piece) {
  return {.size_bytes = piece.size_bytes, .mtime_ns = piece.mtime_ns, .inode = piece.inode};
}

// A copy of a file of another node that is being written.
struct FetchedCopy {
  File file;
  std::optional<PeerNamePiece> first;   // which version it is
  std::optional<PeerNamePiece> latest;  // which version the other node has

  // Takes an answer: bytes at `at` of a file that should have `size_bytes`.
  Status take(uint64_t at, uint64_t size_bytes, ByteView answer) {
    ByteReader reader(answer);
    ASSIGN_OR_RETURN(const auto piece, reader.read<PeerNamePiece>());
    ASSIGN_OR_RETURN(const ByteView bytes, reader.take(reader.remaining()));
    if (piece.size_bytes > INT64_MAX) {
      return fail(Errc::kCorrupt, "it says that the file has {} bytes", piece.size_bytes);
    }
    latest = piece;
    if (!first) first = piece;
    const bool is_same = version_of(piece) == version_of(*first) && piece.size_bytes == size_bytes;
    if (!is_same) return fail(Errc::kCancelled, "the file changes all the time");
    if (bytes.size() != std::min(kNamePieceBytes, size_bytes - at)) {
      return fail(Errc::kCorrupt, "it sent {} bytes at byte {} of {}", bytes.size(), at,
                  size_bytes);
    }
    const uint32_t checksum = crc32c(bytes);
    if (checksum != piece.crc32c) {
      return fail(Errc::kCorrupt, "the checksum at byte {} is {:08x}, but must be {:08x}", at,
                  checksum, piece.crc32c);
    }
    return file.write_at(at, bytes);
  }

  Status finish() {
    if (::fchmod(file.fd(), first->mode & 07777) != 0 ||
        ::futimens(file.fd(), FileTimes(first->mtime_ns).times) != 0) {
      return fail_os(errno, "cannot set mode and time of the copy");
    }
    return file.close();
  }
};

}  // namespace

void RemoteNames::fetch(uint64_t id, FetchCallback done) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto first = in_fetching_.find(id); first != in_fetching_.end()) {
      first->second.push_back(std::move(done));
      return;
    }
    in_fetching_[id];
  }
  const int os_error = fetch_first(id);
  std::vector<FetchCallback> others;
  {
    const std::lock_guard lock(mutex_);
    others = std::move(in_fetching_.extract(id).mapped());
  }
  done(os_error);
  for (const FetchCallback& other : others) other(os_error);
}

// ---- taking -------------------------------------------------------------------------------------

void RemoteNames::take(uint64_t link_inode, Content content, FetchCallback done) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, name] : names_) {
      if (name.link_inode == link_inode && name.bytes != Bytes::kLink) id = name.id;
    }
  }
  if (id == 0 || content == Content::kEmpty) {
    done(id == 0 ? ESTALE : adopt(id, content));
    return;
  }
  fetch(id, [this, id, content, done = std::move(done)](int os_error) {
    done(os_error != 0 ? os_error : adopt(id, content));
  });
}

int RemoteNames::adopt(uint64_t id, Content content) {
  const std::lock_guard lock(mutex_);
  const auto known = paths_.find(id);
  if (known == paths_.end()) return ESTALE;
  const std::string path = known->second;
  const Name name = names_.at(path);
  if (content == Content::kSame && name.bytes == Bytes::kThere) return ESTALE;
  const fs::path made = new_name();
  Status status = make_own(path, name, content, made);
  struct stat own{};
  if (status.ok() && ::lstat(made.c_str(), &own) != 0) status = fail_os(errno, "cannot look at it");
  if (status.ok()) {
    const FileVersion version = FileVersion::of(own);
    options_.take(path, {.version = version,
                         .mode = own.st_mode,
                         .theirs = content == Content::kSame ? version : name.version});
    if (::rename(made.c_str(), in_tree(path).c_str()) != 0)
      status = fail_os(errno, "cannot rename");
  }
  if (!status.ok()) {
    ::unlink(made.c_str());
    report(fmt::format("{}: it cannot be changed on this node: {}", printable(path),
                       status.error().message()));
    return status.error().code() == Errc::kExhausted ? ENOSPC : EIO;
  }
  taken_.insert_or_assign(path, name.version);
  retire(name);
  names_.erase(path);
  return 0;
}

// A file with the bytes keeps the inode that programs have seen, if there is a copy. That gets a
// second name, because a client may have read the link a moment ago. The time is that of the other
// node's file, so a change shows.
Status RemoteNames::make_own(const std::string& path, const Name& name, Content content,
                             const fs::path& made) const {
  std::error_code error;
  if (content == Content::kEmpty) {
    ASSIGN_OR_RETURN(File file, File::open(made, O_WRONLY | O_CREAT | O_EXCL, 0600));
    struct stat saved{};
    const bool is_saved =
        name.bytes == Bytes::kSaved && ::stat((options_.save / path).c_str(), &saved) == 0;
    ::fchmod(file.fd(), (is_saved ? saved.st_mode : name.mode) & 07777);
    RETURN_IF_ERROR(file.close());
  } else if (name.bytes == Bytes::kFetched) {
    fs::create_hard_link(in_fetched(name.id), made, error);
    return error ? Status(fail_os(error.value(), "cannot give it another name")) : Status();
  } else {
    fs::copy_file(options_.save / path, made, error);
    if (error) return fail_os(error.value(), "cannot copy it");
  }
  const FileTimes times(name.version.mtime_ns);
  if (::utimensat(AT_FDCWD, made.c_str(), times.times, 0) == 0) return {};
  return fail_os(errno, "cannot set its time");
}

int RemoteNames::fetch_first(uint64_t id) {
  for (int tries = 0;; ++tries) {
    std::string path;
    Name name;
    if (!find_to_fetch(id, path, name)) {
      if (tries > 0) ::unlink(in_fetched(id).c_str());
      return ESTALE;
    }
    if (name.bytes != Bytes::kThere) return 0;
    const Result<uint64_t> fetched = fetch_bytes(path, name);
    // It was renamed or removed a moment ago, and one of the nodes does not know it yet.
    const bool is_gone = !fetched.ok() && fetched.error().code() == Errc::kNotFound;
    if (!is_gone || tries == kNewsTries) return finish_fetch(path, id, fetched);
    wait_for_news(id, path);
  }
}

// False if the name has changed.
bool RemoteNames::find_to_fetch(uint64_t id, std::string& path, Name& name) {
  const std::lock_guard lock(mutex_);
  remove_retired();  // what it needs may be free by now
  const auto known = paths_.find(id);
  if (known == paths_.end()) return false;
  path = known->second;
  name = names_.at(path);
  return true;
}

void RemoteNames::wait_for_news(uint64_t id, const std::string& path) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kNewsPatience, [&] {
    const auto known = paths_.find(id);
    return known == paths_.end() || known->second != path;
  });
}

// The name may have changed meanwhile.
int RemoteNames::finish_fetch(const std::string& path, uint64_t id,
                              const Result<uint64_t>& fetched) {
  const std::lock_guard lock(mutex_);
  const auto known = paths_.find(id);
  const bool is_wanted =
      known != paths_.end() && known->second == path && names_.at(path).bytes == Bytes::kThere;
  if (fetched.ok()) {
    if (is_wanted && link(path, names_.at(path), shown_link(in_fetched(id))).ok()) {
      names_.at(path).bytes = Bytes::kFetched;
      names_.at(path).version.size_bytes = *fetched;
      return 0;
    }
    options_.release(copy_bytes(*fetched));
  }
  if (!is_wanted) {
    const bool is_gone = known == paths_.end() || names_.at(known->second).bytes != Bytes::kThere;
    if (is_gone) ::unlink(in_fetched(id).c_str());
    return ESTALE;
  }
  Name& name = names_.at(path);
  if (fetched.ok()) return EIO;
  if (is_saved(path, name)) return link_saved(path, name).ok() ? 0 : EIO;
  report(fmt::format("{}: its {} are only on {} and cannot be fetched: {}", printable(path),
                     format_bytes(name.version.size_bytes), peers_.name_of(name.rank),
                     fetched.error().message()));
  return fetched.error().code() == Errc::kExhausted ? ENOSPC : EIO;
}

// Into the directory of copies. Returns the length, which was taken from the capacity.
Result<uint64_t> RemoteNames::fetch_bytes(const std::string& path, const Name& name) {
  uint64_t size_bytes = name.version.size_bytes;
  for (int tries = 1;; ++tries) {
    const uint64_t reserved = copy_bytes(size_bytes);
    if (!options_.reserve(reserved)) {
      return fail(Errc::kExhausted, "the capacity of this node is used up");
    }
    const uint64_t fetched_bytes = size_bytes;
    Status status = fetch_version(path, name, size_bytes);
    if (status.ok()) return fetched_bytes;
    options_.release(reserved);
    const fs::path place = in_fetched(name.id);
    if (::truncate(place.c_str(), 0) == 0) ::chmod(place.c_str(), name.mode);
    if (status.error().code() != Errc::kCancelled || tries == kFetchTries) {
      return std::move(status).error();
    }
  }
}

// kCancelled: the file has changed; `size_bytes` is its length now.
Status RemoteNames::fetch_version(const std::string& path, const Name& name, uint64_t& size_bytes) {
  FetchedCopy copy;
  const fs::path place = in_fetched(name.id);
  ::chmod(place.c_str(), 0600);  // it may be read-only
  ASSIGN_OR_RETURN(copy.file, File::open(place, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  std::string question;
  const auto ask_for = [&](uint64_t number) {
    const PeerReadName head{.offset_bytes = number * kNamePieceBytes,
                            .size_bytes = kNamePieceBytes};
    question = std::string(text_of(std::as_bytes(std::span(&head, 1)))) + path;
    return bytes_of(question);
  };
  const auto take = [&](uint64_t number, ByteView answer) {
    return copy.take(number * kNamePieceBytes, size_bytes, answer);
  };
  const Status status = peers_.ask_all(
      name.rank, wire::PeerKind::kReadName,
      {.count = std::max<uint64_t>(1, (size_bytes + kNamePieceBytes - 1) / kNamePieceBytes),
       .question = ask_for,
       .take = take});
  if (status.ok()) return copy.finish();
  if (copy.latest) size_bytes = copy.latest->size_bytes;
  return status;
}

Result<PeerAnswer> answer_read_name(const fs::path& tree, const Catalogue& catalogue,
                                    ByteView question) {
  ByteReader reader(question);
  ASSIGN_OR_RETURN(const auto asked, reader.read<PeerReadName>());
  ASSIGN_OR_RETURN(const ByteView rest, reader.take(reader.remaining()));
  const std::string path(text_of(rest));
  if (path.empty() || !is_safe_path(path) || catalogue.find(path) ||
      asked.size_bytes > wire::kPeerMessageBytes / 2) {
    return fail(Errc::kInvalidArgument, "'{}' is not a name that a program can create",
                printable(path));
  }
  const auto opened = File::open(tree / path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (!opened.ok() || ::fstat(opened->fd(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return fail(Errc::kNotFound, "{} is not a file of this node", printable(path));
  }
  const File& file = *opened;
  const auto size_bytes = static_cast<uint64_t>(status.st_size);
  const uint64_t at = std::min(asked.offset_bytes, size_bytes);
  const auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<size_t>(std::min(asked.size_bytes, size_bytes - at)));
  RETURN_IF_ERROR(file.read_exactly_at(at, *bytes));
  struct stat after{};
  if (::fstat(file.fd(), &after) != 0 || FileVersion::of(after) != FileVersion::of(status)) {
    return fail(Errc::kCancelled, "{} changes all the time", printable(path));
  }
  const FileVersion version = FileVersion::of(status);
  const PeerNamePiece piece{.size_bytes = version.size_bytes,
                            .mtime_ns = version.mtime_ns,
                            .inode = version.inode,
                            .mode = static_cast<uint32_t>(status.st_mode & 07777),
                            .crc32c = crc32c(*bytes)};
  return PeerAnswer{.bytes = std::string(text_of(std::as_bytes(std::span(&piece, 1)))),
                    .view = *bytes,
                    .keeps = bytes};
}

}  // namespace millrace::store
