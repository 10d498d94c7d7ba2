#include "format/hdf5/driver.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#if !H5_VERSION_GE(1, 14, 0)
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#endif

namespace millrace::format {
namespace {

// The constant of HDF5 also compares versions, and calls abort() if they differ.
constexpr unsigned kReadOnly = 0;

using Place = std::array<hsize_t, H5S_MAX_RANK>;  // the first element of a chunk

Result<Hdf5Id> opened(const std::string& path, const Hdf5Id& access) {
  Hdf5Id file(H5Fopen(path.c_str(), kReadOnly, access.get()), H5Fclose);
  if (!file.ok()) return fail_hdf5(Errc::kCorrupt, "cannot be opened as HDF5");
  return file;
}

#if H5_VERSION_GE(1, 14, 0)

struct Listing {
  Hdf5Dataset* dataset;
  bool is_valid = true;
};

int take_chunk(const hsize_t* place, unsigned filter_mask, haddr_t address, hsize_t size,
               void* out) {
  auto& listing = *static_cast<Listing*>(out);
  Hdf5Dataset& dataset = *listing.dataset;
  uint64_t number = 0;
  for (size_t axis = 0; axis < dataset.lengths.size(); ++axis) {
    const uint64_t at = place[axis] / dataset.chunk_lengths[axis];
    if (at >= dataset.grid_length(axis)) return H5_ITER_CONT;  // of a dataset that was shrunk
    number = number * dataset.grid_length(axis) + at;
  }
  listing.is_valid = listing.is_valid && size <= std::numeric_limits<uint32_t>::max();
  dataset.chunks[number] = {.offset_bytes = address,
                            .size_bytes = static_cast<uint32_t>(size),
                            .skipped_filters = filter_mask};
  return H5_ITER_CONT;
}

#else

// The reads of a chunk that the driver saw instead of performing.
struct Seen {
  haddr_t address = HADDR_UNDEF;
  size_t size_bytes = 0;
  int count = 0;
};
// Set while a chunk is looked up. Guarded by the lock of libhdf5.
Seen* looking = nullptr;

// What libhdf5 calls a file. Its own fields come first.
struct DriverFile {
  H5FD_t base;
  int fd;
  dev_t device;
  ino_t inode;
  haddr_t allocated_end;
  haddr_t end;
};

DriverFile& own(H5FD_t* file) { return *reinterpret_cast<DriverFile*>(file); }
const DriverFile& own(const H5FD_t* file) { return *reinterpret_cast<const DriverFile*>(file); }

// Adds the system's reason to the errors of libhdf5, in its own words.
void push_error(const char* what) {
  const int error = errno;
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_READERROR,
           "%s: errno = %d, error message = '%s'", what, error, std::strerror(error));
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t, haddr_t) {
  if (flags != kReadOnly) return nullptr;
  // O_NONBLOCK: a named pipe must not make us wait for its writer.
  const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info{};
  errno = fd < 0 ? errno : EINVAL;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    push_error("cannot open");
    if (fd >= 0) close(fd);
    return nullptr;
  }
  auto* const file = new (std::nothrow) DriverFile{};
  if (file == nullptr) {
    close(fd);
    return nullptr;
  }
  file->fd = fd;
  file->device = info.st_dev;
  file->inode = info.st_ino;
  file->end = static_cast<haddr_t>(info.st_size);
  return &file->base;
}

herr_t driver_close(H5FD_t* file) {
  close(own(file).fd);
  delete &own(file);
  return 0;
}

int driver_compare(const H5FD_t* a, const H5FD_t* b) {
  const auto key = [](const H5FD_t* file) { return std::pair(own(file).device, own(file).inode); };
  return key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0;
}

herr_t driver_query(const H5FD_t*, unsigned long* flags) {
  // Metadata in one read instead of many. Raw data is not gathered: it must be seen as it is.
  *flags = H5FD_FEAT_ACCUMULATE_METADATA;
  return 0;
}

haddr_t driver_allocated_end(const H5FD_t* file, H5FD_mem_t) { return own(file).allocated_end; }

herr_t driver_set_allocated_end(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  own(file).allocated_end = end;
  return 0;
}

haddr_t driver_end(const H5FD_t* file, H5FD_mem_t) { return own(file).end; }

herr_t driver_read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, void* out) {
  if (looking != nullptr && type == H5FD_MEM_DRAW) {
    looking->address = address;
    looking->size_bytes = size;
    ++looking->count;
    return 0;
  }
  auto* at = static_cast<std::byte*>(out);
  while (size > 0) {
    const ssize_t got = pread(own(file).fd, at, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      push_error("cannot read");
      return -1;
    }
    if (got == 0) {  // HDF5 expects zeros after the end
      std::memset(at, 0, size);
      return 0;
    }
    at += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<size_t>(got);
  }
  return 0;
}

herr_t driver_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

hid_t driver_id() {
  static const hid_t id = [] {
    static H5FD_class_t driver{};
    driver.name = "millrace";
    driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
    driver.fc_degree = H5F_CLOSE_WEAK;
    driver.open = driver_open;
    driver.close = driver_close;
    driver.cmp = driver_compare;
    driver.query = driver_query;
    driver.get_eoa = driver_allocated_end;
    driver.set_eoa = driver_set_allocated_end;
    driver.get_eof = driver_end;
    driver.read = driver_read;
    driver.write = driver_write;
    return H5FDregister(&driver);
  }();
  return id;
}

// A chunk that was never written has no address; libhdf5 fails to read it.
Result<Hdf5Chunk> find_chunk(hid_t id, const Place& place) {
  Seen seen;
  uint32_t filter_mask = 0;
  std::byte nowhere{};  // nothing is read
  looking = &seen;
  const herr_t found = H5Dread_chunk(id, H5P_DEFAULT, place.data(), &filter_mask, &nowhere);
  looking = nullptr;
  if (found >= 0 && seen.count == 1 && seen.size_bytes <= std::numeric_limits<uint32_t>::max()) {
    return Hdf5Chunk{.offset_bytes = seen.address,
                     .size_bytes = static_cast<uint32_t>(seen.size_bytes),
                     .skipped_filters = filter_mask};
  }
  hsize_t size_bytes = 0;
  if (H5Dget_chunk_storage_size(id, place.data(), &size_bytes) < 0 &&
      hdf5_reason().find("not allocated") != std::string::npos) {
    return Hdf5Chunk{};
  }
  // Slower than what we tried above, but it tells an unwritten chunk from a damaged index.
  haddr_t address = HADDR_UNDEF;
  unsigned skipped = 0;
  if (H5Dget_chunk_info_by_coord(id, place.data(), &skipped, &address, &size_bytes) >= 0 &&
      (address == HADDR_UNDEF || size_bytes == 0)) {
    return Hdf5Chunk{};
  }
  return fail_hdf5(Errc::kCorrupt, "the place of a chunk cannot be found");
}

// Calls visit(place) for every chunk of the grid, in C order.
Status for_each_place(const Hdf5Dataset& dataset,
                      const std::function<Status(const Place&)>& visit) {
  Place place{};
  for (uint64_t number = 0; number < dataset.chunks.size(); ++number) {
    RETURN_IF_ERROR(visit(place));
    for (size_t axis = dataset.lengths.size(); axis-- > 0;) {
      place[axis] += dataset.chunk_lengths[axis];
      if (place[axis] < dataset.lengths[axis]) break;
      place[axis] = 0;
    }
  }
  return {};
}

#endif

}  // namespace

#if H5_VERSION_GE(1, 14, 0)

Result<Hdf5Id> open_hdf5(const std::string& path) {
  const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (H5Pset_file_locking(access.get(), false, true) < 0) {
    return fail_hdf5(Errc::kIo, "cannot be opened without a lock");
  }
  return opened(path, access);
}

bool can_find_chunks(hid_t id) {
  const Hdf5Id file(H5Iget_file_id(id), H5Fclose);
  const Hdf5Id creation(H5Fget_create_plist(file.get()), H5Pclose);
  hsize_t block_bytes = 0;
  return H5Pget_userblock(creation.get(), &block_bytes) >= 0 && block_bytes == 0;
}

Status find_chunks(hid_t id, Hdf5Dataset& dataset) {
  Listing listing{&dataset};
  if (H5Dchunk_iter(id, H5P_DEFAULT, take_chunk, &listing) < 0 || !listing.is_valid) {
    return fail_hdf5(Errc::kCorrupt, "the places of its chunks cannot be read");
  }
  return {};
}

#else

Result<Hdf5Id> open_hdf5(const std::string& path) {
  const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (H5Pset_driver(access.get(), driver_id(), nullptr) < 0) {
    return fail_hdf5(Errc::kUnsupported, "libhdf5 refuses our driver");
  }
  return opened(path, access);
}

bool can_find_chunks(hid_t) { return true; }  // the driver sees where they really are

Status find_chunks(hid_t id, Hdf5Dataset& dataset) {
  uint64_t number = 0;
  return for_each_place(dataset, [&](const Place& place) -> Status {
    ASSIGN_OR_RETURN(dataset.chunks[number++], find_chunk(id, place));
    return {};
  });
}

#endif

}  // namespace millrace::format
