#include "advise/case.h"

#include <algorithm>

#include "advise/loop_loading.h"
#include "advise/wording.h"

namespace millrace::advise {
namespace {

using analyze::FileKind;
using analyze::Profile;

struct Extension {
  std::string_view name;
  Format format;
};
constexpr Extension kExtensions[] = {
    {".npy", Format::kArrays},     {".bin", Format::kArrays},      {".dat", Format::kArrays},
    {".raw", Format::kArrays},     {".f32", Format::kArrays},      {".pt", Format::kArrays},
    {".jpg", Format::kImages},     {".jpeg", Format::kImages},     {".png", Format::kImages},
    {".webp", Format::kImages},    {".bmp", Format::kImages},      {".tif", Format::kImages},
    {".tiff", Format::kImages},    {".gif", Format::kImages},      {".ppm", Format::kImages},
    {".jp2", Format::kImages},     {".heic", Format::kImages},     {".avif", Format::kImages},
    {".dcm", Format::kImages},     {".mp4", Format::kImages},      {".avi", Format::kImages},
    {".mov", Format::kImages},     {".mkv", Format::kImages},      {".webm", Format::kImages},
    {".flac", Format::kImages},    {".mp3", Format::kImages},      {".ogg", Format::kImages},
    {".opus", Format::kImages},    {".m4a", Format::kImages},      {".csv", Format::kText},
    {".tsv", Format::kText},       {".txt", Format::kText},        {".json", Format::kText},
    {".jsonl", Format::kText},     {".ndjson", Format::kText},     {".xml", Format::kText},
    {".gpx", Format::kText},       {".html", Format::kText},       {".off", Format::kText},
    {".obj", Format::kText},       {".pdb", Format::kText},        {".md", Format::kText},
    {".libsvm", Format::kText},    {".svm", Format::kText},        {".yaml", Format::kText},
    {".npz", Format::kCompressed}, {".gz", Format::kCompressed},   {".zip", Format::kCompressed},
    {".bz2", Format::kCompressed}, {".xz", Format::kCompressed},   {".zst", Format::kCompressed},
    {".lz4", Format::kCompressed}, {".pbz2", Format::kCompressed}, {".tgz", Format::kCompressed},
    {".h5", Format::kHdf5},        {".hdf5", Format::kHdf5},       {".nc", Format::kHdf5},
};

// What the bytes say where the name says nothing.
constexpr Extension kContents[] = {
    {"text", Format::kText},       {"numpy", Format::kArrays},      {"image", Format::kImages},
    {"hdf5", Format::kHdf5},       {"gzip", Format::kCompressed},   {"zip", Format::kCompressed},
    {"zstd", Format::kCompressed}, {"xz", Format::kCompressed},     {"bzip2", Format::kCompressed},
    {"lz4", Format::kCompressed},  {"zip stored", Format::kArrays},
};

uint64_t stored_reads_ns(const Profile& profile) {
  const analyze::IoTotals io = data_totals(profile);
  const uint64_t copy_ns = time_at(io.bytes_read, kCacheBytesPerSecond) + io.reads * kCachedReadNs;
  return minus(profile.loading.read_ns, copy_ns);
}

bool loads_between_steps(const Profile& profile) {
  const analyze::TimeSplit& mean = profile.time.mean;
  const analyze::Loading& loading = profile.loading;
  const uint64_t ranks = std::max<uint64_t>(profile.job.ranks, 1);
  return loading.threads > 0 && mean.fetch_ns > 0 &&
         ratio(mean.fetch_exposed_ns, mean.fetch_ns) > 0.9 &&
         ratio(mean.fetch_exposed_ns, mean.wait_ns) > 0.75 &&
         loading.work_ns / ranks <= loading.threads * mean.compute_ns;
}

uint64_t steady_waiting(const Profile& profile, const Waiting& waiting) {
  constexpr double kBusyMin = 0.5;
  const analyze::Loading& loading = profile.loading;
  if (loading.threads == 0 || loads_between_steps(profile)) return waiting.data_ns;
  // Workers that are idle half of the time are not what training waits for, unless they load while
  // it waits: handing over small batches takes as long as loading them, and is in no region.
  const uint64_t time_ns = waiting.data_ns + profile.time.mean.compute_ns;
  const uint64_t could_ns = time_ns * loading.threads * waiting.ranks;
  if (ratio(waiting.work_ns, could_ns) < kBusyMin) {
    const uint64_t exposed_ns = std::min(profile.time.mean.fetch_exposed_ns, waiting.data_ns);
    const bool waits_much = 2 * waiting.data_ns >= profile.time.mean.compute_ns;
    return waits_much && 2 * exposed_ns >= waiting.data_ns ? exposed_ns : 0;
  }
  // The first batch of an epoch has to be fetched: only what its start takes besides is not
  // loading.
  const uint64_t fetches_ns = loading.epoch_starts * loading.fetch_mean_ns;
  const uint64_t starts_ns = minus(loading.epoch_starts_ns, fetches_ns) / waiting.ranks;
  return minus(waiting.data_ns, starts_ns);
}

// With more busy threads than cores, compute takes longer than it needs. What it needs is seen in
// the steps in which the workers had nothing to do.
uint64_t contended_compute(const Profile& profile, const Waiting& waiting) {
  constexpr double kBusyMin = 0.4;
  constexpr double kOfShortest = 1.5;  // the shortest step may have been a lucky or a small one
  constexpr uint64_t kStepsMin = 20;
  const analyze::Loading& loading = profile.loading;
  const uint64_t ranks_per_host =
      waiting.ranks / std::max<uint64_t>(std::min(waiting.ranks, profile.job.hosts.size()), 1);
  if (loading.threads == 0 || (loading.threads + 1) * ranks_per_host <= profile.job.cores) return 0;
  const uint64_t compute_ns = profile.time.mean.compute_ns;
  const uint64_t code_ns = minus(loading.work_ns, stored_reads_ns(profile));
  const uint64_t could_ns = (waiting.data_ns + compute_ns) * loading.threads * waiting.ranks;
  const analyze::Distribution& steps = profile.steps.compute_ns;
  if (ratio(code_ns, could_ns) < kBusyMin || steps.count < kStepsMin) return 0;
  const uint64_t steps_per_rank = steps.count / waiting.ranks;
  const auto needed_ns = static_cast<uint64_t>(kOfShortest * static_cast<double>(steps.min) *
                                               static_cast<double>(steps_per_rank));
  return minus(compute_ns, needed_ns);
}

const analyze::FileStats* most_read_file(const Profile& profile) {
  const analyze::FileStats* most = nullptr;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != FileKind::kData) continue;
    if (most == nullptr || file.io.bytes_read > most->io.bytes_read) most = &file;
  }
  return most;
}

// Bytes that are mapped are not seen to be read. A small index beside mapped data is not the data.
uint64_t bytes_used(const analyze::GroupStats& group) {
  return std::max(group.io.bytes_read, group.io.maps > 0 ? group.size_bytes : 0);
}

DataFormat format_of(const Profile& profile) {
  const analyze::GroupStats* most = nullptr;
  for (const analyze::GroupStats& group : profile.extensions) {
    if (most == nullptr || bytes_used(group) > bytes_used(*most)) most = &group;
  }
  if (most == nullptr || bytes_used(*most) == 0) return {};
  DataFormat format{.format = Format::kUnknown, .extension = most->name};
  for (const Extension& extension : kExtensions) {
    if (most->name.ends_with(extension.name)) format.format = extension.format;  // ".nii.gz"
  }
  const bool is_plain_npz = most->name == ".npz" && most->content == "zip stored";
  const bool is_text = format.format == Format::kArrays && most->content == "text";  // .dat
  if (format.format != Format::kUnknown && !is_plain_npz && !is_text) return format;
  for (const Extension& content : kContents) {
    if (most->content == content.name) format.format = content.format;
  }
  return format;
}

bool may_serve_one(const Profile& profile, const Machine& machine) {
  constexpr uint64_t kSlowDeviceNs = 2'000'000;  // a solid-state disk answers sooner
  const analyze::IoTotals io = data_totals(profile);
  if (io.reads == 0 || io.read_ns / io.reads < kSlowDeviceNs) return false;
  return machine.data_storage != Storage::kParallel && machine.data_storage != Storage::kNetwork;
}

std::optional<uint64_t> cores_per_rank(const Profile& profile, const Machine& machine) {
  const uint64_t cores = machine.cores.value_or(profile.job.cores);
  if (cores == 0) return {};
  const uint64_t hosts = std::max<uint64_t>(profile.job.hosts.size(), 1);
  const uint64_t ranks = std::max<uint64_t>(profile.job.ranks, 1);
  return std::max<uint64_t>(cores * hosts / ranks, 1);
}

bool is_shared_storage(const Profile& profile, const Machine& machine) {
  switch (machine.data_storage) {
    case Storage::kParallel:
    case Storage::kNetwork:
      return true;
    case Storage::kUnknown:
      return profile.job.hosts.size() > 1 && profile.data.files_shared > 0;
    default:
      return false;
  }
}

uint64_t at_least_one(uint64_t count) { return std::max<uint64_t>(count, 1); }

}  // namespace

Case::Case(const Profile& recorded, const Machine& on)
    : profile(with_helper_reads(with_loop_loading(recorded))),
      machine(on),
      io(data_totals(profile)),
      ranks(at_least_one(job.ranks)),
      hosts(at_least_one(job.hosts.size())),
      epochs(at_least_one(job.epochs)),
      mean_file_bytes(job.dataset_bytes / at_least_one(job.dataset_files)),
      dataset_bytes(std::max(job.dataset_bytes, job.dataset_unique_bytes)),
      most_read(most_read_file(profile)),
      format(format_of(profile)),
      cores(cores_per_rank(profile, machine)),
      stored_reads_ns(advise::stored_reads_ns(profile)),
      loads_between_steps(advise::loads_between_steps(profile)),
      may_serve_one(advise::may_serve_one(profile, machine)),
      is_on_shared_storage(is_shared_storage(profile, machine)) {}

uint64_t Waiting::due_to(uint64_t time_ns) const {
  if (work_ns == 0) return scaled(io_ns, ratio(time_ns, calls_ns));
  const double removed = ratio(time_ns, work_ns);
  return std::min(steady_ns, scaled(busy_ns, removed)) + scaled(contended_ns, removed);
}

uint64_t Waiting::exposed_due_to(uint64_t time_ns) const {
  return scaled(exposed_ns, ratio(time_ns, all_calls_ns));
}

Waiting Waiting::with_startup() const {
  Waiting all = *this;
  all.training_ns = wall_ns;
  return all;
}

double Waiting::share(uint64_t time_ns) const { return ratio(time_ns, training_ns); }

std::string Waiting::part(uint64_t time_ns) const {
  return part_text(share(time_ns), training_ns < wall_ns);
}

Waiting waiting_of(const Profile& profile) {
  Waiting waiting;
  const analyze::TimeSplit& mean = profile.time.mean;
  waiting.wall_ns = profile.job.wall_ns;
  waiting.training_ns = waiting.wall_ns;
  waiting.ranks = std::max<uint64_t>(profile.job.ranks, 1);
  for (const analyze::GroupStats& group : profile.kinds) {
    waiting.all_calls_ns += time_of(group.io);
  }
  waiting.calls_ns = time_of(data_totals(profile));
  waiting.exposed_ns = std::min(mean.io_exposed_ns, waiting.wall_ns);
  if (profile.time.basis == analyze::WaitBasis::kRegions) {
    const analyze::Loading& loading = profile.loading;
    // Equal to wall_ns: it is not known when training begins.
    if (mean.training_ns > 0 && mean.training_ns < mean.wall_ns) {
      waiting.training_ns = std::min(mean.training_ns, waiting.wall_ns);
    }
    waiting.data_ns = std::min(mean.wait_ns, waiting.training_ns);
    waiting.work_ns = loading.work_ns;
    waiting.busy_ns =
        std::max(mean.fetch_ns, std::min(waiting.data_ns, mean.decode_ns + mean.transform_ns));
    waiting.steady_ns = steady_waiting(profile, waiting);
    waiting.contended_ns = contended_compute(profile, waiting);
    waiting.io_ns =
        waiting.work_ns == 0
            ? std::min(waiting.data_ns, waiting.exposed_ns)
            : waiting.due_to(loading.read_ns + loading.metadata_ns + loading.library_ns);
    return waiting;
  }
  // Without regions, waiting is known only as I/O that does not overlap with compute.
  const uint64_t known = profile.time.basis == analyze::WaitBasis::kNone
                             ? waiting.exposed_ns
                             : std::min(mean.wait_ns, waiting.exposed_ns);
  waiting.io_ns = scaled(known, ratio(waiting.calls_ns, waiting.all_calls_ns));
  waiting.data_ns = waiting.io_ns;
  return waiting;
}

uint64_t parsing_ns_max(const Case& given) {
  // Of the text jobs of the clinic, the slowest parser takes 90 ns for a byte.
  constexpr uint64_t kByteNs = 1'000;
  constexpr uint64_t kOpenNs = 1'000'000;
  for (const analyze::GroupStats& group : given.profile.extensions) {
    if (group.name != given.format.extension) continue;
    return group.io.bytes_read * kByteNs + group.io.opens * kOpenNs;
  }
  return 0;
}

uint64_t own_code_ns(const analyze::Loading& loading) {
  const uint64_t known_ns = loading.decode_ns + loading.decompress_ns + loading.parse_ns;
  return minus(loading.other_ns, known_ns);
}

uint64_t around_calls(const Case& given, uint64_t calls) {
  // Code in Python around a call: making objects, looking up names.
  constexpr uint64_t kAroundCallNs = 20'000;
  const analyze::Loading& loading = given.loading;
  const uint64_t all = 2 * loading.opens + loading.stats + loading.lists + loading.reads;
  return std::min(scaled(loading.other_ns, ratio(calls, all)), calls * kAroundCallNs);
}

uint64_t code_of_calls(const Case& given, uint64_t calls, uint64_t all) {
  const Format format = given.format.format;
  if (format != Format::kUnknown && format != Format::kArrays) return around_calls(given, calls);
  return scaled(given.loading.other_ns, ratio(calls, all));
}

}  // namespace millrace::advise
