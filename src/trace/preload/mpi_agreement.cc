#include "trace/preload/mpi_agreement.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "hook/environment.h"
#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/recorder.h"
#include "trace/preload/text.h"
#include "wire/launchers.h"
#include "wire/trace_session.h"

namespace millrace::trace {
namespace {

constexpr std::string_view kGo = "go";
constexpr std::string_view kNo = "no";

struct Agreement {
  bool promised = false;
  int rank = -1;  // from the launcher
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

const char* value_of(const char* name) {
  return name == nullptr ? nullptr : hook::find_variable(environ, name, std::strlen(name));
}

int number_in(const char* name) {
  const char* value = value_of(name);
  return value == nullptr ? -1 : number(value);
}

// The answer is the same on all nodes, however many ranks each has.
bool on_several_nodes(const wire::PlaceVariables& place) {
  const int local_size = number_in(place.local_size);
  if (local_size > 0) return local_size < number_in(place.size);
  return number_in("SLURM_STEP_NUM_NODES") > 1;
}

// A number that all ranks of the job share, but no other job and no restart of this one; 0 if there
// is none. The remains of a killed job must not decide for another.
uint64_t job_number() {
  const hook::Scratch<hook::ScratchText> scratch;
  if (!scratch) return 0;
  Text builder(scratch->text);
  for (const std::string_view name :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PALS_APID", "SLURM_JOB_ID"}) {
    if (variable(name).empty()) continue;
    builder.add(variable(name));
    if (name == "SLURM_JOB_ID") builder.add(" ").add(variable("SLURM_STEP_ID"));
    // Slurm gives a restarted job the same numbers.
    builder.add(" ").add(variable("SLURM_RESTART_COUNT"));
    // Open MPI's namespace has few bits. The address of its mpirun is added.
    builder.add(" ").add(variable("OMPI_MCA_orte_hnp_uri"));
    return wire::name_hash(scratch->text, builder.size()) | 1;
  }
  return 0;
}

// The directory that contains the sessions of all hosts.
std::string_view trace_directory() {
  if (recorder.settings.directory[0] != '\0') return recorder.settings.directory;
  const std::string_view session(recorder.settings.session);
  const size_t slash = session.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : session.substr(0, slash);
}

void name_files(uint64_t job, int rank) {
  Text(agreement.folder).add(trace_directory()).add("/.mpi-").add(job);
  Text(agreement.own).add(agreement.folder).add("/").add(static_cast<uint64_t>(rank));
  Text(agreement.verdict).add(agreement.folder).add("/verdict");
}

long make_link(const char* path, std::string_view content) {
  return hook::system_call(SYS_symlinkat, hook::word(content.data()), AT_FDCWD, hook::word(path));
}

// Empty if there is none yet.
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
  alignas(dirent64) char buffer[768];
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

}  // namespace

void promise_to_agree() {
  const wire::Launcher* launcher = wire::find_mpi_launcher(value_of);
  if (launcher == nullptr) return;
  const wire::PlaceVariables place = wire::place_variables(*launcher, value_of);
  const int rank = number_in(place.rank);
  const uint64_t job = job_number();
  if (rank < 0 || number_in(place.size) < 2 || !on_several_nodes(place) || job == 0) return;
  name_files(job, rank);
  hook::sys_mkdir(agreement.folder, 0700);
  agreement.rank = rank;
  const long made = make_link(agreement.own, "here");
  agreement.promised = made >= 0 || made == -EEXIST;
}

bool all_ranks_agree(const MpiPlace& place) {
  if (!agreement.promised) return false;
  const bool all = place.rank == agreement.rank && count_ranks() >= place.world_size;
  const long made = make_link(agreement.verdict, all ? kGo : kNo);
  if (made >= 0) return all;
  // Another rank was first: its verdict counts.
  return read_verdict() == kGo;
}

void end_agreement() {
  if (!agreement.promised) return;
  agreement.promised = false;
  hook::sys_unlink(agreement.own);
  hook::sys_unlink(agreement.verdict);
  hook::system_call(SYS_unlinkat, AT_FDCWD, hook::word(agreement.folder), AT_REMOVEDIR);
}

}  // namespace millrace::trace
