#include "trace/preload/mpi_agreement.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "hook/environment.h"
#include "hook/syscall.h"
#include "trace/preload/recorder.h"
#include "trace/preload/text.h"
#include "wire/clock.h"

namespace millrace::trace {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kFirstWaitsNs = 2 * kSecondNs;
constexpr uint64_t kOthersWaitNs = 5 * kSecondNs;

constexpr std::string_view kGo = "go";
constexpr std::string_view kNo = "no";

struct Agreement {
  bool begun = false;
  char folder[4200] = {};
  char own[4240] = {};
  char verdict[4240] = {};
};
constinit Agreement agreement;

std::string_view variable(std::string_view name) {
  const char* value = hook::find_variable(environ, name.data(), name.size());
  return value == nullptr ? std::string_view() : std::string_view(value);
}

int number(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || value > 100'000'000) return -1;
    value = value * 10 + (c - '0');
  }
  return text.empty() ? -1 : value;
}

// By what launchers say. All nodes get the same answer, whatever number of ranks each has.
bool on_several_nodes(int world_size) {
  for (const std::string_view name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PALS_LOCAL_SIZE"}) {
    const int local_size = number(variable(name));
    if (local_size > 0) return local_size < world_size;
  }
  return number(variable("SLURM_STEP_NUM_NODES")) > 1;
}

// A name that all ranks of the job have and another job has not; empty where there is none.
void add_job(TextBuilder& to) {
  for (const std::string_view name :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PALS_APID", "SLURM_JOB_ID"}) {
    const std::string_view value = variable(name);
    if (value.empty()) continue;
    for (const char& c : value) to.add(c == '/' ? "-" : std::string_view(&c, 1));
    if (name == "SLURM_JOB_ID") to.add("-").add(variable("SLURM_STEP_ID"));
    return;
  }
}

// Where the sessions of all hosts lie.
std::string_view trace_directory() {
  if (recorder.settings.directory[0] != '\0') return recorder.settings.directory;
  const std::string_view session(recorder.settings.session);
  const size_t slash = session.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : session.substr(0, slash);
}

// False where the job has no name.
bool name_files(int rank) {
  char job[512];
  TextBuilder builder(job);
  add_job(builder);
  if (builder.end() == 0) return false;
  TextBuilder(agreement.folder).add(trace_directory()).add("/.mpi-").add(job).end();
  TextBuilder(agreement.own).add(agreement.folder).add("/").add(static_cast<uint64_t>(rank)).end();
  TextBuilder(agreement.verdict).add(agreement.folder).add("/verdict").end();
  return true;
}

long make_link(const char* path, std::string_view content) {
  return hook::system_call(SYS_symlinkat, hook::word(content.data()), AT_FDCWD, hook::word(path));
}

// Empty where there is none yet.
std::string_view read_verdict() {
  char text[8];
  const long size = hook::sys_readlink(agreement.verdict, text, sizeof(text));
  if (size <= 0) return {};
  return std::string_view(text, static_cast<size_t>(size)) == kGo ? kGo : kNo;
}

int count_ranks() {
  const int fd = hook::sys_open(agreement.folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return 0;
  int count = 0;
  alignas(dirent64) char buffer[8192];
  long size = 0;
  while ((size = hook::system_call(SYS_getdents64, fd, hook::word(buffer), sizeof(buffer))) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') ++count;
      at += entry->d_reclen;
    }
  }
  hook::sys_close(fd);
  return count;
}

void pause_a_little() {
  const timespec two_ms{.tv_sec = 0, .tv_nsec = 2'000'000};
  hook::system_call(SYS_nanosleep, hook::word(&two_ms), 0);
}

}  // namespace

bool all_ranks_agree(const MpiPlace& place) {
  if (place.world_size < 2 || !on_several_nodes(place.world_size) || !name_files(place.rank)) {
    return false;
  }
  hook::sys_mkdir(agreement.folder, 0777);
  if (make_link(agreement.own, "here") < 0) return false;
  agreement.begun = true;
  const bool first = place.rank == 0;
  const uint64_t until = wire::monotonic_clock_ns() + (first ? kFirstWaitsNs : kOthersWaitNs);
  for (;;) {
    const std::string_view verdict = read_verdict();
    if (!verdict.empty()) return verdict == kGo;
    if (first && count_ranks() >= place.world_size) {
      make_link(agreement.verdict, kGo);
    } else if (wire::monotonic_clock_ns() >= until) {
      // Where not even that can be made there is nothing to obey either.
      if (make_link(agreement.verdict, kNo) < 0 && read_verdict().empty()) return false;
    } else {
      pause_a_little();
    }
  }
}

void end_agreement() {
  if (!agreement.begun) return;
  agreement.begun = false;
  hook::sys_unlink(agreement.own);
  hook::sys_unlink(agreement.verdict);
  hook::system_call(SYS_unlinkat, AT_FDCWD, hook::word(agreement.folder), AT_REMOVEDIR);
}

}  // namespace millrace::trace
