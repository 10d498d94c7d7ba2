#include "store/buffer/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/io/directory.h"
#include "base/text/text.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using wire::BufferHeader;
using wire::BufferProgress;
using wire::BufferRecord;

std::string boot_id() {
  const auto text = read_file("/proc/sys/kernel/random/boot_id", 4096);
  return text.ok() ? text->substr(0, sizeof(BufferHeader::boot_id)) : "";
}

uint64_t now_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

std::string encode_header(const BufferOwner& owner) {
  BufferHeader header = {};
  header.magic = wire::kBufferMagic;
  header.version = wire::kBufferVersion;
  header.upper_bytes = static_cast<uint16_t>(owner.upper.size());
  header.root_bytes = static_cast<uint16_t>(owner.root.size());
  header.job_bytes = static_cast<uint16_t>(owner.job.size());
  const std::string boot = boot_id();
  std::memcpy(header.boot_id, boot.data(), boot.size());
  const std::string texts = owner.upper + owner.root + owner.job;
  header.size_bytes = static_cast<uint32_t>(sizeof(header) + texts.size());
  std::string out = std::string(text_of(std::as_bytes(std::span(&header, 1)))) + texts;
  header.crc = wire::buffer_crc(out.data() + wire::kBufferHeaderUnchecked,
                                out.size() - wire::kBufferHeaderUnchecked);
  std::memcpy(out.data(), &header, sizeof(header));
  return out;
}

Result<std::string> read_range(const File& file, uint64_t begin, uint64_t end) {
  std::string bytes(end - begin, '\0');
  RETURN_IF_ERROR(file.read_exactly_at(begin, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

Status write_new(const fs::path& path, ByteView bytes) {
  ASSIGN_OR_RETURN(File file, File::open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
  RETURN_IF_ERROR(file.write_at(0, bytes));
  RETURN_IF_ERROR(file.sync());
  return file.close();
}

}  // namespace

fs::path data_path(const fs::path& directory, uint64_t id) {
  char target[wire::kBufferTargetBytes + 1];
  wire::write_buffer_target(id, target);
  return directory / target;
}

std::vector<JournalRecord> parse_journal(std::string_view bytes, uint64_t* used,
                                         uint64_t* damaged) {
  std::vector<JournalRecord> records;
  wire::BufferRecordView view = {};
  *used = 0;
  for (size_t at = 0; at < bytes.size();) {
    if (!wire::parse_buffer_record(bytes.substr(at), view)) {
      const auto first = static_cast<char>(wire::kBufferRecordMagic & 0xff);
      at = std::min(bytes.find(first, at + 1), bytes.size());
      continue;
    }
    *damaged += at - *used;
    at += view.record.size_bytes;
    *used = at;
    records.push_back({.kind = view.record.kind,
                       .id = view.record.id,
                       .value = view.record.value,
                       .time_ns = view.record.time_ns,
                       .from = std::string(view.from),
                       .to = std::string(view.to),
                       .end = at});
  }
  return records;
}

Result<BufferJournal> BufferJournal::create(const fs::path& directory, const BufferOwner& owner) {
  const std::string shown = printable(directory.string());
  for (const std::string& path : {owner.upper, owner.root, owner.job}) {
    if (path.size() > wire::kBufferPathMax) {
      return fail(Errc::kInvalidArgument, "a path of {} bytes is too long", path.size())
          .within(shown);
    }
  }
  for (const char* name : {"", wire::kBufferData, wire::kBufferNames}) {
    if (::mkdir((directory / name).c_str(), 0700) != 0) {
      return fail_os(errno, "cannot create the buffer").within(shown);
    }
  }
  const std::string header = encode_header(owner);
  BufferProgress progress = {};
  progress.offset = header.size();
  const ByteView progress_bytes = std::as_bytes(std::span(&progress, 1));
  RETURN_IF_ERROR(write_new(directory / wire::kBufferProgress, progress_bytes));
  RETURN_IF_ERROR(write_new(directory / wire::kBufferJournal, bytes_of(header)));
  RETURN_IF_ERROR(sync_directory(directory));
  RETURN_IF_ERROR(sync_directory(directory.parent_path()));
  return open(directory);
}

Result<BufferJournal> BufferJournal::open(const fs::path& directory) {
  BufferJournal journal;
  journal.directory_ = directory;
  const fs::path path = directory / wire::kBufferJournal;
  const std::string shown = printable(path.string());
  ASSIGN_OR_RETURN(journal.file_, File::open(path, O_RDWR | O_APPEND | O_NOFOLLOW));
  ASSIGN_OR_RETURN(journal.progress_,
                   File::open(directory / wire::kBufferProgress, O_RDWR | O_NOFOLLOW));
  struct stat info = {};
  // Whoever wrote it says what is renamed and removed, and where.
  if (::fstat(journal.file_.fd(), &info) != 0 || info.st_uid != ::geteuid()) {
    return fail(Errc::kPermission, "it belongs to user {}; save its files as that user",
                info.st_uid)
        .within(shown);
  }
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  BufferHeader header = {};
  const Error not_one = fail(Errc::kCorrupt, "this is not the journal of a buffer").within(shown);
  if (file_bytes < sizeof(header)) return not_one;
  ASSIGN_OR_RETURN(std::string bytes, read_range(journal.file_, 0, sizeof(header)).within(shown));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != wire::kBufferMagic) return not_one;
  if (header.version != wire::kBufferVersion) {
    return fail(Errc::kUnsupported, "version {}; this build reads version {}", header.version,
                wire::kBufferVersion)
        .within(shown);
  }
  const size_t texts = size_t{header.upper_bytes} + header.root_bytes + header.job_bytes;
  if (header.size_bytes != sizeof(header) + texts || header.size_bytes > file_bytes) return not_one;
  ASSIGN_OR_RETURN(bytes, read_range(journal.file_, 0, header.size_bytes).within(shown));
  if (header.crc != wire::buffer_crc(bytes.data() + wire::kBufferHeaderUnchecked,
                                     bytes.size() - wire::kBufferHeaderUnchecked)) {
    return fail(Errc::kCorrupt, "the header is damaged").within(shown);
  }
  journal.owner_.upper = bytes.substr(sizeof(header), header.upper_bytes);
  journal.owner_.root = bytes.substr(sizeof(header) + header.upper_bytes, header.root_bytes);
  journal.owner_.job = bytes.substr(bytes.size() - header.job_bytes);
  journal.is_of_this_boot_ = boot_id() == std::string(header.boot_id, sizeof(header.boot_id));
  journal.header_bytes_ = header.size_bytes;
  journal.read_bytes_ = header.size_bytes;
  return journal;
}

Result<BufferJournal::Lock> BufferJournal::Lock::take(const BufferJournal& journal) {
  const int fd = journal.file_.fd();
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return fail_os(errno, "cannot lock the journal of the buffer");
  }
  return Lock(fd);
}

BufferJournal::Lock::~Lock() {
  if (fd_ >= 0) ::flock(fd_, LOCK_UN);
}

Result<std::vector<JournalRecord>> BufferJournal::read_new() {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file_.size_bytes());
  if (file_bytes <= read_bytes_) return std::vector<JournalRecord>();
  ASSIGN_OR_RETURN(const std::string bytes, read_range(file_, read_bytes_, file_bytes));
  uint64_t used = 0;
  std::vector<JournalRecord> records = parse_journal(bytes, &used, &damaged_bytes_);
  for (JournalRecord& record : records) record.end += read_bytes_;
  read_bytes_ += used;
  return records;
}

Status BufferJournal::append_closed(uint64_t id) {
  BufferRecord record = {};
  record.magic = wire::kBufferRecordMagic;
  record.size_bytes = sizeof(record);
  record.kind = wire::BufferRecordKind::kClosed;
  record.id = id;
  record.time_ns = now_ns();
  record.crc =
      wire::buffer_crc(reinterpret_cast<const char*>(&record) + wire::kBufferRecordUnchecked,
                       sizeof(record) - wire::kBufferRecordUnchecked);
  ASSIGN_OR_RETURN(const uint64_t before, file_.size_bytes());
  const ssize_t written = ::write(file_.fd(), &record, sizeof(record));
  if (written == sizeof(record)) return {};
  const int error = written < 0 ? errno : ENOSPC;
  if (::ftruncate(file_.fd(), static_cast<off_t>(before)) != 0) {
    return fail_os(errno, "cannot remove an incomplete record from the journal");
  }
  return fail_os(error, "cannot write the journal");
}

Status BufferJournal::truncate() {
  if (::ftruncate(file_.fd(), static_cast<off_t>(header_bytes_)) != 0) {
    return fail_os(errno, "cannot truncate the journal");
  }
  read_bytes_ = header_bytes_;
  return {};
}

Result<BufferProgress> BufferJournal::read_progress() const {
  BufferProgress progress = {};
  ASSIGN_OR_RETURN(const size_t got,
                   progress_.read_at(0, std::as_writable_bytes(std::span(&progress, 1))));
  if (got != sizeof(progress)) {
    // Starting again from the beginning could remove files that were saved since.
    return fail(Errc::kCorrupt, "'{}' of the buffer has {} bytes, but must have {}",
                wire::kBufferProgress, got, sizeof(progress));
  }
  return progress;
}

Status BufferJournal::write_progress(BufferProgress& progress, bool durable) const {
  progress.written_ns = now_ns();
  RETURN_IF_ERROR(progress_.write_at(0, std::as_bytes(std::span(&progress, 1))));
  return durable ? progress_.sync() : Status();
}

}  // namespace millrace::store
