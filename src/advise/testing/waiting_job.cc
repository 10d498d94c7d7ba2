#include "advise/testing/waiting_job.h"

namespace millrace::advise {

using analyze::Profile;

Profile waiting_job(const std::string& extension) {
  Profile profile;
  profile.job.wall_ns = 11 * kSecondNs;
  profile.job.ranks = 1;
  profile.job.hosts = {"somewhere"};
  profile.job.epochs = 4;
  profile.job.framework = "pytorch";
  profile.job.dataset_bytes_read = 400 * kMiB;
  profile.time.basis = analyze::WaitBasis::kRegions;
  profile.time.mean.wall_ns = profile.job.wall_ns;
  profile.time.mean.wait_ns = 8 * kSecondNs;
  profile.time.mean.fetch_ns = 8 * kSecondNs;
  profile.time.mean.fetch_exposed_ns = 8 * kSecondNs;
  profile.time.mean.compute_ns = 2 * kSecondNs;
  profile.loading.work_ns = 8 * kSecondNs;
  profile.loading.samples = 4000;
  profile.loading.batches = 125;
  profile.loading.reads = 4000;
  profile.loading.in_flight = 1;
  analyze::GroupStats group;
  group.name = extension;
  group.files = 1;
  group.io.bytes_read = 400 * kMiB;
  profile.extensions = {group};
  group.name = "data";
  profile.kinds = {group};
  return profile;
}

Finding first(const Profile& profile, const Machine& machine) {
  const auto findings = advise(profile, machine);
  return findings.empty() ? Finding{} : findings.front();
}

std::string first_rule(const Profile& profile, const Machine& machine) {
  return first(profile, machine).rule;
}

double saved_s(const Finding& finding) { return static_cast<double>(finding.gain.saved_ns) / 1e9; }

Profile job_of(const Code& code) {
  Profile profile = waiting_job(code.extension);
  profile.extensions.front().content = code.content;
  profile.loading.reads = code.reads;
  profile.loading.other_ns = 8 * kSecondNs;
  profile.loading.decode_ns = code.decode_ns;
  profile.loading.decompress_ns = code.decompress_ns;
  profile.loading.parse_ns = code.parse_ns;
  return profile;
}

std::string first_rule(const Code& code) { return first_rule(job_of(code)); }

analyze::FunctionStats function(const std::string& name, wire::CallKind kind) {
  analyze::FunctionStats function;
  function.name = name;
  function.kind = kind;
  return function;
}

analyze::Stall stall(const std::string& name, const std::string& directory) {
  analyze::Stall stall;
  stall.phase = "in training";
  stall.name = name;
  stall.directory = directory;
  stall.count = 100;
  stall.gaps = 50;
  stall.stall_ns = kSecondNs;
  return stall;
}

analyze::FileStats data_file(const std::string& path, uint64_t size_bytes, uint64_t passes) {
  analyze::FileStats file;
  file.path = path;
  file.kind = analyze::FileKind::kData;
  file.size_bytes = size_bytes;
  file.unique_bytes_read = size_bytes;
  file.readers = 1;
  file.ranks = 1;
  file.io.opens = passes;
  file.io.reads = passes;
  file.io.bytes_read = passes * size_bytes;
  return file;
}

Profile job_with_workers(uint64_t workers) {
  Profile profile = waiting_job(".bin");
  profile.job.processes = static_cast<uint32_t>(1 + workers);
  profile.loading.threads = workers;
  profile.loading.in_flight = static_cast<double>(workers);
  profile.loading.work_ns = workers * 8 * kSecondNs;
  profile.loading.other_ns = profile.loading.work_ns;
  return profile;
}

}  // namespace millrace::advise
