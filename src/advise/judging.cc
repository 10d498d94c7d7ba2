#include "advise/judging.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "analyze/files/file_kinds.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

using analyze::FileKind;
using analyze::Profile;
using analyze::Role;

constexpr double kProblemShare = 0.1;

bool contains(const analyze::GroupStats& group, FileKind kind) {
  return group.name == analyze::kFileKindNames[static_cast<size_t>(kind)];
}

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

// Code in Python around a call: making objects, looking up names.
constexpr uint64_t kAroundCallNs = 20'000;

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
  const uint64_t starts_ns =
      (loading.epoch_starts_ns - std::min(loading.epoch_starts_ns, fetches_ns)) / waiting.ranks;
  return waiting.data_ns - std::min(waiting.data_ns, starts_ns);
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
  const uint64_t code_ns = loading.work_ns - std::min(loading.work_ns, stored_reads_ns(profile));
  const uint64_t could_ns = (waiting.data_ns + compute_ns) * loading.threads * waiting.ranks;
  const analyze::Distribution& steps = profile.steps.compute_ns;
  if (ratio(code_ns, could_ns) < kBusyMin || steps.count < kStepsMin) return 0;
  const uint64_t steps_per_rank = steps.count / waiting.ranks;
  const auto needed_ns = static_cast<uint64_t>(kOfShortest * static_cast<double>(steps.min) *
                                               static_cast<double>(steps_per_rank));
  return compute_ns - std::min(compute_ns, needed_ns);
}

}  // namespace

uint64_t time_of(const analyze::IoTotals& io) { return io.read_ns + io.write_ns + io.metadata_ns; }

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

uint64_t time_at(uint64_t bytes, uint64_t bytes_per_second) {
  // In floating point: a product of bytes and nanoseconds overflows at 18 GB.
  return static_cast<uint64_t>(ratio(bytes, bytes_per_second) * 1e9);
}

uint64_t scaled(uint64_t whole, double share) {
  return static_cast<uint64_t>(static_cast<double>(whole) * std::clamp(share, 0.0, 1.0));
}

std::string duration(uint64_t time_ns) {
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(time_ns)));
}

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

std::string part_text(double share, bool of_training) {
  return format_percent(share) + (of_training ? " of training time" : " of the wall time");
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

bool loads_between_steps(const Profile& profile) {
  const analyze::TimeSplit& mean = profile.time.mean;
  const analyze::Loading& loading = profile.loading;
  const uint64_t ranks = std::max<uint64_t>(profile.job.ranks, 1);
  return loading.threads > 0 && mean.fetch_ns > 0 &&
         ratio(mean.fetch_exposed_ns, mean.fetch_ns) > 0.9 &&
         ratio(mean.fetch_exposed_ns, mean.wait_ns) > 0.75 &&
         loading.work_ns / ranks <= loading.threads * mean.compute_ns;
}

analyze::IoTotals data_totals(const Profile& profile) {
  for (const analyze::GroupStats& group : profile.kinds) {
    if (contains(group, FileKind::kData)) return group.io;
  }
  return {};
}

const analyze::FileStats* most_read_file(const Profile& profile) {
  const analyze::FileStats* most = nullptr;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != FileKind::kData) continue;
    if (most == nullptr || file.io.bytes_read > most->io.bytes_read) most = &file;
  }
  return most;
}

std::string data_directory(const Profile& profile) {
  const analyze::FileStats* most = most_read_file(profile);
  const size_t slash = most == nullptr ? std::string::npos : most->path.rfind('/');
  if (slash == std::string::npos || slash == 0) return "DATA";
  return most->path.substr(0, slash);
}

namespace {

// Bytes that are mapped are not seen to be read. A small index beside mapped data is not the data.
uint64_t bytes_used(const analyze::GroupStats& group) {
  return std::max(group.io.bytes_read, group.io.maps > 0 ? group.size_bytes : 0);
}

}  // namespace

uint64_t parsing_ns_max(const Profile& profile, const DataFormat& format) {
  // Of the text jobs of the clinic, the slowest parser takes 90 ns for a byte.
  constexpr uint64_t kByteNs = 1'000;
  constexpr uint64_t kOpenNs = 1'000'000;
  for (const analyze::GroupStats& group : profile.extensions) {
    if (group.name != format.extension) continue;
    return group.io.bytes_read * kByteNs + group.io.opens * kOpenNs;
  }
  return 0;
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

uint64_t stored_reads_ns(const Profile& profile) {
  const analyze::IoTotals io = data_totals(profile);
  const uint64_t copy_ns = time_at(io.bytes_read, kCacheBytesPerSecond) + io.reads * kCachedReadNs;
  return profile.loading.read_ns - std::min(profile.loading.read_ns, copy_ns);
}

uint64_t own_code_ns(const analyze::Loading& loading) {
  const uint64_t known_ns = loading.decode_ns + loading.decompress_ns + loading.parse_ns;
  return loading.other_ns - std::min(loading.other_ns, known_ns);
}

uint64_t around_calls(const analyze::Loading& loading, uint64_t calls) {
  const uint64_t all = 2 * loading.opens + loading.stats + loading.lists + loading.reads;
  return std::min(scaled(loading.other_ns, ratio(calls, all)), calls * kAroundCallNs);
}

namespace {

// The directory of all files like the one that most bytes were read from: with one directory for
// each class, that of the classes.
std::string dataset_directory(const Profile& profile) {
  const std::string of_most = data_directory(profile);
  const analyze::FileStats* most = most_read_file(profile);
  if (most == nullptr) return of_most;
  const std::string extension = analyze::extension_of(most->path);
  std::string directory = of_most;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != FileKind::kData || analyze::extension_of(file.path) != extension) continue;
    while (!directory.empty() && !file.path.starts_with(directory + "/")) {
      directory.resize(std::min(directory.rfind('/'), directory.size() - 1));
    }
  }
  return directory.empty() ? of_most : directory;
}

}  // namespace

std::string store_commands(const Profile& profile) {
  const std::string directory = dataset_directory(profile);
  return fmt::format(
      "millrace store pack {} -o PACKS, then millrace store run --pack PACKS --at {} -- COMMAND",
      directory, directory);
}

uint64_t epochs_of(const Profile& profile) { return std::max<uint64_t>(profile.job.epochs, 1); }

uint64_t code_of_calls(const Profile& profile, uint64_t calls, uint64_t all) {
  const Format format = format_of(profile).format;
  if (format != Format::kUnknown && format != Format::kArrays) {
    return around_calls(profile.loading, calls);
  }
  return scaled(profile.loading.other_ns, ratio(calls, all));
}

wire::CallKind kind_of(const Profile& profile, std::string_view name) {
  for (const analyze::FunctionStats& function : profile.functions) {
    // A region may have the name of a call, such as "read".
    if (function.name == name && function.kind != wire::CallKind::kRegion) return function.kind;
  }
  return wire::CallKind::kOther;
}

bool changes_names(std::string_view name) {
  for (const std::string_view start : {"rename", "unlink", "remove", "link", "symlink", "mkdir",
                                       "rmdir", "truncate", "ftruncate", "chmod", "fchmod"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

bool writes_checkpoint(const Profile& profile, const analyze::Stall& stall) {
  if (profile.checkpoints.empty()) return false;
  const wire::CallKind kind = kind_of(profile, stall.name);
  if (stall.phase != kInTraining || is_metadata(profile, stall.name) ||
      kind == wire::CallKind::kRead || kind == wire::CallKind::kMap) {
    return false;
  }
  uint64_t writes = 0;
  uint64_t others = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (analyze::directory_of(file.path) != stall.directory) continue;
    (file.kind == FileKind::kCheckpoint ? writes : others) += file.io.writes;
  }
  return writes > others;
}

uint64_t unmarked_checkpoints_ns(const Profile& profile) {
  uint64_t time_ns = 0;
  for (const analyze::Stall& stall : profile.stalls) {
    if (writes_checkpoint(profile, stall)) time_ns += stall.stall_ns;
  }
  return time_ns / std::max<uint64_t>(profile.job.ranks, 1);
}

bool is_metadata(const Profile& profile, std::string_view name) {
  if (changes_names(name)) return false;
  const wire::CallKind kind = kind_of(profile, name);
  return kind == wire::CallKind::kMetadata || kind == wire::CallKind::kDirectory;
}

bool is_reading(const Profile& profile, std::string_view name) {
  const wire::CallKind kind = kind_of(profile, name);
  return kind == wire::CallKind::kRead || kind == wire::CallKind::kOpen ||
         kind == wire::CallKind::kClose || kind == wire::CallKind::kSeek ||
         kind == wire::CallKind::kMap;
}

bool uses_hdf5(const Profile& profile) {
  const bool called = std::any_of(
      profile.layers.begin(), profile.layers.end(),
      [](const auto& layer) { return layer.layer == analyze::Layer::kFormat && layer.count > 0; });
  if (called) return true;
  return std::any_of(profile.extensions.begin(), profile.extensions.end(),
                     [](const auto& group) { return is_hdf5_name(group.name); });
}

bool is_hdf5_name(std::string_view path) {
  return path.ends_with(".h5") || path.ends_with(".hdf5") || path.ends_with(".nc");
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

Changes& Changes::add(std::string_view framework, std::string text) {
  list_.push_back({.framework = std::string(framework), .text = std::move(text)});
  return *this;
}

Changes& Changes::pytorch(std::string text) {
  if (profile_.job.framework == "tensorflow") return *this;
  return add("pytorch", std::move(text));
}

Changes& Changes::tf_data(std::string text) {
  if (profile_.job.framework == "pytorch") return *this;
  return add("tf.data", std::move(text));
}

Changes& Changes::hdf5(std::string text) {
  return uses_hdf5(profile_) ? add("hdf5", std::move(text)) : *this;
}

Changes& Changes::lustre(std::string text) {
  const bool may_be = machine_.data_file_system.empty()
                          ? machine_.data_storage == Storage::kParallel
                          : machine_.data_file_system == "lustre";
  return may_be ? add("lustre", std::move(text)) : *this;
}

Changes& Changes::store(std::string text) { return add("store", std::move(text)); }
Changes& Changes::loader(std::string text) { return add("loader", std::move(text)); }
Changes& Changes::any(std::string text) { return add("any", std::move(text)); }

std::string stripe_command(const Profile& profile, uint64_t transfer_bytes, uint64_t file_bytes) {
  const uint64_t stripe = std::bit_ceil(std::clamp<uint64_t>(transfer_bytes, kMiB, 16 * kMiB));
  const uint64_t count = std::clamp<uint64_t>(file_bytes / kGiB, 1, 16);
  return fmt::format("lfs setstripe -S {}M -c {} {}", stripe / kMiB, count,
                     data_directory(profile));
}

Gain gain_of(const Waiting& waiting, uint64_t saved_ns, std::string how) {
  Gain gain;
  gain.saved_ns = std::min(saved_ns, waiting.training_ns);
  gain.share = waiting.share(gain.saved_ns);
  gain.of_training = waiting.training_ns < waiting.wall_ns;
  gain.how = std::move(how);
  // Otherwise it would save more waiting than there is.
  if (gain.saved_ns > waiting.data_ns && waiting.contended_ns > 0 &&
      gain.how.find("wait") != std::string::npos) {
    gain.how += "; and the compute that this work slows down on the same cores";
  }
  return gain;
}

Gain unknown_gain(std::string why) { return {.how = std::move(why)}; }

Severity severity_of(const Gain& gain, Severity otherwise) {
  return gain.share > kProblemShare ? Severity::kProblem : otherwise;
}

}  // namespace millrace::advise
