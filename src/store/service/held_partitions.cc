#include "store/service/held_partitions.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/concurrency/thread.h"
#include "base/io/directory.h"
#include "base/io/file.h"
#include "base/text/text.h"
#include "store/buffer/durable_file.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopiedPieceBytes = 1 << 20;

bool is_same_storage(const fs::path& one, const fs::path& other) {
  struct stat first{};
  struct stat second{};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev;
}

}  // namespace

HeldPartitions::HeldPartitions(const PackReader& reader, HeldPartitionsOptions options)
    : reader_(reader),
      options_(std::move(options)),
      is_held_(reader.catalogue().partition_count()),
      files_(reader.catalogue().partition_count()),
      published_(reader.catalogue().partition_count()) {
  for (const uint32_t number : options_.numbers) {
    is_held_[number] = true;
    const uint64_t bytes = reader_.catalogue().partition(number).file_bytes;
    const fs::path path = reader_.partition_path(number);
    if (!reader_.partition_file(number).ok() ||
        is_same_storage(path, options_.directory.parent_path()) ||
        bytes > options_.budget_bytes - reserved_bytes_) {
      continue;
    }
    reserved_bytes_ += bytes;
    to_copy_.push_back(number);
  }
}

HeldPartitions::~HeldPartitions() {
  is_ending_ = true;
  if (thread_.joinable()) thread_.join();
}

Status HeldPartitions::start() {
  if (to_copy_.empty()) return {};
  RETURN_IF_ERROR(make_directories(options_.directory));
  ASSIGN_OR_RETURN(thread_, start_thread("store copies", [this] { copy_all(); }));
  return {};
}

Result<ByteView> HeldPartitions::packed(uint32_t index) const {
  const wire::CatalogueEntry entry = reader_.catalogue().entry(index);
  if (entry.kind != wire::EntryKind::kFile) return reader_.packed(index);
  const MappedFile* const copy = published_[entry.partition].load(std::memory_order_acquire);
  if (copy == nullptr) return reader_.packed(index);
  return copy->bytes().subspan(static_cast<size_t>(entry.offset_bytes),
                               static_cast<size_t>(entry.packed_bytes));
}

void HeldPartitions::copy_all() {
  for (const uint32_t number : to_copy_) {
    if (is_ending_) return;
    const Status status = copy(number);
    if (status.ok() || !options_.log) continue;
    options_.log(fmt::format("{}: not copied to this node, and read from there instead: {}",
                             printable(reader_.partition_path(number).string()),
                             status.error().message()));
  }
}

// Complete or not there: others may map what has its name.
Status HeldPartitions::copy(uint32_t number) {
  const fs::path source = reader_.partition_path(number);
  const fs::path target =
      options_.directory / fs::path(reader_.catalogue().partition_name(number)).filename();
  const fs::path temporary = target.string() + ".making";
  ASSIGN_OR_RETURN(const File from, File::open(source, O_RDONLY));
  ASSIGN_OR_RETURN(File to, File::open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  const uint64_t size_bytes = reader_.catalogue().partition(number).file_bytes;
  const auto copy_piece = [&](uint64_t at, ByteView piece) -> Status {
    if (is_ending_) return fail(Errc::kCancelled, "the service ends");
    return to.write_at(at, piece);
  };
  RETURN_IF_ERROR(for_blocks(from, size_bytes, kCopiedPieceBytes, copy_piece));
  struct stat status{};
  if (::fstat(from.fd(), &status) != 0) return fail_os(errno, "cannot read its status");
  const timespec times[] = {status.st_mtim, status.st_mtim};
  if (::futimens(to.fd(), times) != 0) return fail_os(errno, "cannot set its time");
  RETURN_IF_ERROR(to.close());
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    return fail_os(errno, "cannot rename the copy");
  }
  ASSIGN_OR_RETURN(MappedFile mapped, reader_.map_partition(number, target));
  files_[number] = std::make_unique<MappedFile>(std::move(mapped));
  published_[number].store(files_[number].get(), std::memory_order_release);
  return {};
}

}  // namespace millrace::store
