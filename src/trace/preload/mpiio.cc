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
