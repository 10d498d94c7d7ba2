#include "trace/preload/mpiio.h"

#include <string_view>

namespace millrace::trace {
namespace {

constinit HandleTable files{};

constexpr int kModeSequential = 256;  // the same in every MPI
constexpr uint64_t kKnown = uint64_t{1} << 63;
constexpr uint64_t kSequential = uint64_t{1} << 32;

HandleTable::Key key_of(Handle file) { return {static_cast<uint64_t>(file), 0}; }

}  // namespace

MpiFile find_mpi_file(Handle file) {
  const uint64_t value = files.find(key_of(file));
  return {.name = NameId{static_cast<uint32_t>(value)},
          .sequential = (value & kSequential) != 0,
          .known = value != 0};
}

void keep_mpi_file(Handle file, NameId name, int mode) {
  files.put(key_of(file), kKnown | ((mode & kModeSequential) != 0 ? kSequential : 0) |
                              static_cast<uint32_t>(name));
}

void forget_mpi_file(Handle file) { files.erase(key_of(file)); }

NameId intern_mpi_path(const char* path) {
  if (path == nullptr) return kNoName;
  const std::string_view text(path);
  for (const std::string_view prefix :
       {"ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "pvfs2:", "panfs:", "daos:", "testfs:"}) {
    if (text.starts_with(prefix)) return intern_path(path + prefix.size());
  }
  return intern_path(path);
}

uint64_t byte_offset(const MpiLibrary& mpi, const MpiFile& known, Handle file, Offset offset) {
  Offset bytes = 0;
  if (!mpi.known() || !known.known || known.sequential || offset < 0 ||
      mpi.get_byte_offset(file, offset, &bytes) != kMpiSuccess) {
    return kNoOffset;
  }
  return static_cast<uint64_t>(bytes);
}

uint64_t byte_position(const MpiLibrary& mpi, const MpiFile& known, Handle file) {
  Offset position = 0;
  if (!mpi.known() || !known.known || known.sequential ||
      mpi.get_position(file, &position) != kMpiSuccess) {
    return kNoOffset;
  }
  return byte_offset(mpi, known, file, position);
}

TracedTransfer::TracedTransfer(const Transfer& transfer, const void* caller)
    : transfer_(transfer), status_(transfer.status) {
  if (!recording(Level::kMpiio)) return;
  file_ = find_mpi_file(transfer.file);
  if (ignored(file_.name)) return;
  const int saved_errno = errno;
  mpi_ = &mpi_library(caller);
  if (transfer.place == OffsetOrigin::kExplicit) {
    offset_ = byte_offset(*mpi_, file_, transfer.file, transfer.offset);
  } else if (transfer.place == OffsetOrigin::kAtPosition) {
    offset_ = byte_position(*mpi_, file_, transfer.file);
  }
  if (transfer.has_status && mpi_->known() && status_ == mpi_->status_ignore) {
    status_ = own_status_;
  }
  errno = saved_errno;
  begin_ = now();
}

TracedTransfer::Amounts TracedTransfer::amounts() const {
  int type_size = 0;
  if (!mpi_->known() || transfer_.count < 0 ||
      mpi_->type_size(transfer_.type, &type_size) != kMpiSuccess || type_size < 0) {
    return {};
  }
  Amounts result;
  result.size = static_cast<uint64_t>(transfer_.count) * static_cast<uint64_t>(type_size);
  result.moved = static_cast<int64_t>(result.size);
  int count = 0;
  // In bytes, because a read may end in the middle of an element. Sizes beyond an int have no count
  // and are assumed to be complete.
  if (transfer_.has_status && mpi_->get_count(status_, mpi_->bytes, &count) == kMpiSuccess &&
      count >= 0 && result.size <= INT32_MAX) {
    result.moved = count;
  }
  return result;
}

int TracedTransfer::finish(int code) {
  if (mpi_ == nullptr) return code;
  const uint64_t end = now();
  const int saved_errno = errno;
  if (code == kMpiSuccess) {
    const Amounts done = amounts();
    record({.call = transfer_.call, .file = file_.name, .offset = offset_, .size = done.size},
           {begin_, end, done.moved});
  } else {
    record({.call = transfer_.call,
            .file = file_.name,
            .offset = offset_,
            .detail = static_cast<uint32_t>(code)},
           {begin_, end, -1});
  }
  errno = saved_errno;
  return code;
}

void record_mpi_call(Call call, NameId name, const Described& described, uint64_t begin,
                     uint64_t end, int code) {
  if (code == kMpiSuccess) {
    record({.call = call,
            .file = name,
            .offset = described.offset,
            .size = described.size,
            .detail = described.detail},
           {begin, end, described.result});
  } else {
    record({.call = call, .file = name, .detail = static_cast<uint32_t>(code)}, {begin, end, -1});
  }
}

}  // namespace millrace::trace
