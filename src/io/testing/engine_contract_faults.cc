#include <fcntl.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "io/testing/engine_contract.h"

namespace millrace::io {
namespace {

template <typename T>
Status expect_error(const Result<T>& result, Errc code, std::string_view beginning,
                    std::string_view words) {
  if (result.ok()) {
    return fail(Errc::kCorrupt, "a call succeeded that should have failed with '{}'", words);
  }
  const std::string& message = result.error().message();
  if (result.error().code() == code && message.starts_with(beginning) &&
      message.find(words) != std::string::npos) {
    return {};
  }
  return fail(Errc::kCorrupt, "a call failed with '{}', not with '{} ... {}'", message, beginning,
              words);
}

// Like read_whole, through a queue.
Result<size_t> read_whole_in_flight(Ground& ground, const std::string& path, MutableByteView out) {
  ASSIGN_OR_RETURN(const auto queue, ground.engine.open_queue(1));
  RETURN_IF_ERROR(queue->submit_whole({path, out, 7}));
  std::vector<ReadDone> done;
  RETURN_IF_ERROR(queue->wait(done));
  if (done.size() != 1 || done[0].tag != 7) return fail(Errc::kCorrupt, "another read came back");
  return std::move(done[0].bytes_read);
}

Status a_missing_file_is_named(Ground& ground) {
  const std::string path = ground.path("no/such/file").native();
  std::vector<std::byte> out(10);
  RETURN_IF_ERROR(expect_error(ground.engine.open(path), Errc::kNotFound, path + ": ", "no such"));
  RETURN_IF_ERROR(
      expect_error(ground.engine.read_whole(path, out), Errc::kNotFound, path + ": ", "no such"));
  return expect_error(read_whole_in_flight(ground, path, out), Errc::kNotFound, path + ": ",
                      "no such");
}

Status a_directory_is_refused(Ground& ground) {
  if (ground.has_real_files()) {
    std::filesystem::create_directory(ground.path("folder"));
  } else {
    RETURN_IF_ERROR(write_pattern(ground, "folder/file", 10));
  }
  const std::string path = ground.path("folder").native();
  std::vector<std::byte> out(10);
  RETURN_IF_ERROR(
      expect_error(ground.engine.open(path), Errc::kInvalidArgument, path, "is a directory"));
  RETURN_IF_ERROR(expect_error(ground.engine.read_whole(path, out), Errc::kInvalidArgument, path,
                               "is a directory"));
  RETURN_IF_ERROR(expect_error(read_whole_in_flight(ground, path, {}), Errc::kInvalidArgument, path,
                               "is a directory"));
  return expect_error(read_whole_in_flight(ground, path, out), Errc::kInvalidArgument, path,
                      "is a directory");
}

Status the_error_for_a_file_that_does_not_fit_has_its_length(Ground& ground) {
  for (const uint64_t file_bytes : {11, 4096, 8192, 100'000}) {
    RETURN_IF_ERROR(write_pattern(ground, "too-long", file_bytes));
    const std::string path = ground.path("too-long").native();
    for (const uint64_t room_bytes : {uint64_t{0}, uint64_t{10}, file_bytes / 2, file_bytes - 1}) {
      std::vector<std::byte> out(room_bytes);
      const auto words =
          fmt::format("the file has {} bytes, but there is room for {}", file_bytes, room_bytes);
      RETURN_IF_ERROR(
          expect_error(ground.engine.read_whole(path, out), Errc::kExhausted, path + ": ", words));
      RETURN_IF_ERROR(expect_error(read_whole_in_flight(ground, path, out), Errc::kExhausted,
                                   path + ": ", words));
    }
  }
  return {};
}

// Runs the check in a thread of its own, so that what it changes affects only that thread.
template <typename Check>
Status in_a_thread(Check check) {
  Status outcome;
  std::jthread([&] { outcome = check(); }).join();
  return outcome;
}

Status a_file_without_permission_is_named(Ground& ground) {
  RETURN_IF_ERROR(write_pattern(ground, "secret", 10));
  const std::string path = ground.path("secret").native();
  if (chmod(path.c_str(), 0) != 0) return fail_os(errno, "chmod");
  return in_a_thread([&]() -> Status {
    if (geteuid() == 0) {
      chmod(ground.directory.c_str(), 0755);
      setfsuid(65534);  // nobody: root may read everything
    }
    std::vector<std::byte> out(10);
    RETURN_IF_ERROR(
        expect_error(ground.engine.open(path), Errc::kPermission, path, "permission denied"));
    RETURN_IF_ERROR(expect_error(ground.engine.read_whole(path, out), Errc::kPermission, path,
                                 "permission denied"));
    RETURN_IF_ERROR(expect_error(read_whole_in_flight(ground, path, out), Errc::kPermission, path,
                                 "permission denied"));
    return expect_error(ground.engine.create(path), Errc::kPermission, path, "permission denied");
  });
}

Status write_until_it_fails(Ground& ground, const std::filesystem::path& path, Errc code,
                            std::string_view words) {
  ASSIGN_OR_RETURN(const auto writer, ground.engine.create(path));
  const std::vector<std::byte> bytes(300'000, std::byte{5});
  for (uint64_t i = 0; i < 20; ++i) {
    const Status written = writer->write_at(i * bytes.size(), bytes);
    if (!written.ok()) return expect_error(written, code, "cannot write", words);
  }
  return fail(Errc::kCorrupt, "a full disk accepted all writes");
}

// Uses a disk of 1 MiB if mounting is allowed. The mount belongs to the thread and ends with it.
Status a_full_disk_is_reported(Ground& ground) {
  return in_a_thread([&]() -> Status {
    const auto small = ground.path("small");
    std::filesystem::create_directory(small);
    const bool is_mounted = unshare(CLONE_NEWNS) == 0 &&
                            mount("", "/", "", MS_REC | MS_PRIVATE, "") == 0 &&
                            mount("tmpfs", small.c_str(), "tmpfs", 0, "size=1m") == 0;
    if (is_mounted) {
      if (ground.engine.name() == "direct" && !ground.engine.create(small / "probe").ok()) {
        return {};  // kernels before 6.6 have no O_DIRECT on tmpfs
      }
      return write_until_it_fails(ground, small / "f", Errc::kExhausted, "free some space");
    }
    return {};
  });
}

Status a_file_over_the_limit_is_reported(Ground& ground) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status outcome =
      write_until_it_fails(ground, ground.path("limited"), Errc::kExhausted, "ulimit -f");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  return outcome;
}

Status too_many_open_files_are_reported_with_a_fix(Ground& ground) {
  RETURN_IF_ERROR(write_pattern(ground, "one-more", 10));
  const std::string path = ground.path("one-more").native();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int next = dup(0);
  close(next);
  const rlimit none_left{static_cast<rlim_t>(next), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none_left);
  std::vector<std::byte> out(10);
  const auto opened = ground.engine.open(path);
  const auto read = ground.engine.read_whole(path, out);
  const auto created = ground.engine.create(path);
  setrlimit(RLIMIT_NOFILE, &before);
  RETURN_IF_ERROR(expect_error(opened, Errc::kExhausted, path, "ulimit -n"));
  RETURN_IF_ERROR(expect_error(read, Errc::kExhausted, path, "ulimit -n"));
  return expect_error(created, Errc::kExhausted, path, "ulimit -n");
}

Status a_file_that_shrinks_is_read_to_its_new_end(Ground& ground) {
  RETURN_IF_ERROR(write_pattern(ground, "shrinks", 100'000));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("shrinks")));
  std::filesystem::resize_file(ground.path("shrinks"), 5'000);
  std::vector<std::byte> out(100'000);
  RETURN_IF_ERROR(check_read(*reader, 5'000, 0, out));
  RETURN_IF_ERROR(expect(!reader->view(0, 5'001), "no view crosses the new end"));
  return expect(!reader->view(90'000, 10), "no view lies past the new end");
}

Status a_file_that_grows_is_read_to_its_new_end(Ground& ground) {
  RETURN_IF_ERROR(write_pattern(ground, "grows", 100));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("grows")));
  const int fd = open(ground.path("grows").c_str(), O_WRONLY | O_CLOEXEC);
  const std::byte more = byte_at(100);
  const bool is_written = pwrite(fd, &more, 1, 100) == 1;
  close(fd);
  RETURN_IF_ERROR(expect(is_written, "one more byte is written"));
  std::vector<std::byte> out(200);
  return check_read(*reader, 101, 0, out);
}

constexpr ContractClause kFaults[] = {
    {"AMissingFileIsNamed", false, a_missing_file_is_named},
    {"ADirectoryIsRefused", false, a_directory_is_refused},
    {"TheErrorForAFileThatDoesNotFitHasItsLength", false,
     the_error_for_a_file_that_does_not_fit_has_its_length},
    {"AFileWithoutPermissionIsNamed", true, a_file_without_permission_is_named},
    {"AFullDiskIsReported", true, a_full_disk_is_reported},
    {"AFileOverTheLimitIsReported", true, a_file_over_the_limit_is_reported},
    {"TooManyOpenFilesAreReportedWithAFix", true, too_many_open_files_are_reported_with_a_fix},
    {"AFileThatShrinksIsReadToItsNewEnd", true, a_file_that_shrinks_is_read_to_its_new_end},
    {"AFileThatGrowsIsReadToItsNewEnd", true, a_file_that_grows_is_read_to_its_new_end},
};

}  // namespace

std::span<const ContractClause> contract_faults() { return kFaults; }

}  // namespace millrace::io
