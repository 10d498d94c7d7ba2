#include "io/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "base/io/input_file.h"
#include "io/read_cursor.h"

namespace millrace::io {

Result<File> open_to_read(const std::filesystem::path& path, int more_flags) {
  ASSIGN_OR_RETURN(File file, open_input(path, more_flags));
  struct stat info{};
  if (fstat(file.fd(), &info) != 0) {
    return fail_os(errno, "cannot get its type").within(path.native());
  }
  if (S_ISDIR(info.st_mode)) return fail_os(EISDIR, "cannot open").within(path.native());
  return file;
}

Result<std::unique_ptr<Writer>> create_file(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(File file, File::open(path, O_WRONLY | O_CREAT | O_TRUNC));
  return std::unique_ptr<Writer>(std::make_unique<FileWriter>(std::move(file)));
}

Result<std::unique_ptr<Reader>> FileEngine::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(File file, open_to_read(path));
  return std::unique_ptr<Reader>(std::make_unique<FileReader>(std::move(file)));
}

Error longer_than_room(uint64_t size_bytes, size_t room_bytes) {
  return fail(Errc::kExhausted, "the file has {} bytes, but there is room for {}", size_bytes,
              room_bytes);
}

namespace {

// Reads to the end of the file. A spare byte after `out` makes the read that fills it show whether
// the file is longer, so a file that fits exactly needs no second call. Not fstat: its length may
// be outdated. A second call is made only if the first ended at a multiple of 512, where a bad
// block may have cut it short (read_cursor.h).
Result<size_t> read_to_the_end(const File& file, MutableByteView out) {
  std::byte spare{};
  size_t done = 0;
  while (true) {
    iovec places[2] = {{out.data() + done, out.size() - done}, {&spare, 1}};
    const ssize_t got = readv(file.fd(), places, 2);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int os_error = errno;
      return fail_os(os_error, fmt::format("cannot read at byte {}", done));
    }
    const size_t wanted = out.size() - done + 1;
    done += static_cast<size_t>(got);
    if (done > out.size()) {
      ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes());
      return longer_than_room(size_bytes, out.size());
    }
    if (got == 0) return done;
    if (static_cast<size_t>(got) < wanted && !may_hide_an_error(done)) return done;
  }
}

}  // namespace

Result<size_t> read_whole_file(const std::filesystem::path& path, MutableByteView out) {
  ASSIGN_OR_RETURN(const File file, File::open(path, O_RDONLY));
  return read_to_the_end(file, out).within(path.native());
}

}  // namespace millrace::io
