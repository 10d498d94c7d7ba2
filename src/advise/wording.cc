#include "advise/wording.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "analyze/files/file_kinds.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

constexpr double kProblemShare = 0.1;

// The directory of all files like the one that most bytes were read from: with one directory for
// each class, that of the classes.
std::string dataset_directory(const Case& given) {
  const std::string of_most = data_directory(given);
  if (given.most_read == nullptr) return of_most;
  const std::string extension = analyze::extension_of(given.most_read->path);
  std::string directory = of_most;
  for (const analyze::FileStats& file : given.profile.files) {
    if (file.kind != analyze::FileKind::kData || analyze::extension_of(file.path) != extension)
      continue;
    while (!directory.empty() && !file.path.starts_with(directory + "/")) {
      directory.resize(std::min(directory.rfind('/'), directory.size() - 1));
    }
  }
  return directory.empty() ? of_most : directory;
}

}  // namespace

std::string duration(uint64_t time_ns) {
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(time_ns)));
}

std::string part_text(double share, bool of_training) {
  return format_percent(share) + (of_training ? " of training time" : " of the wall time");
}

std::string data_directory(const Case& given) {
  const size_t slash =
      given.most_read == nullptr ? std::string::npos : given.most_read->path.rfind('/');
  if (slash == std::string::npos || slash == 0) return "DATA";
  return given.most_read->path.substr(0, slash);
}

std::string store_commands(const Case& given) {
  const std::string directory = dataset_directory(given);
  return fmt::format(
      "millrace store pack {} -o PACKS, then millrace store run --pack PACKS --at {} -- COMMAND",
      directory, directory);
}

std::string stripe_command(const Case& given, uint64_t transfer_bytes, uint64_t file_bytes) {
  const uint64_t stripe = std::bit_ceil(std::clamp<uint64_t>(transfer_bytes, kMiB, 16 * kMiB));
  const uint64_t count = std::clamp<uint64_t>(file_bytes / kGiB, 1, 16);
  return fmt::format("lfs setstripe -S {}M -c {} {}", stripe / kMiB, count, data_directory(given));
}

Evidence waiting_for_data(const Case& given) {
  return at("time.mean", "a rank waits {} for data, {}", duration(given.waiting.data_ns),
            given.waiting.part(given.waiting.data_ns));
}

Gain gain_of(const Waiting& waiting, uint64_t saved_ns, std::string how) {
  const uint64_t limited_ns = std::min(saved_ns, waiting.training_ns);
  return {.saved_ns = limited_ns,
          .share = waiting.share(limited_ns),
          .of_training = waiting.training_ns < waiting.wall_ns,
          .how = std::move(how)};
}

Finding less_time(const Waiting& waiting, uint64_t saved_ns, Finding text) {
  text.gain = gain_of(waiting, saved_ns, std::move(text.gain.how));
  text.severity = text.gain.share > kProblemShare ? Severity::kProblem : Severity::kWarning;
  return text;
}

Finding less_waiting(const Waiting& waiting, uint64_t saved_ns, Finding text) {
  Finding finding = less_time(waiting, saved_ns, std::move(text));
  // Otherwise it would save more waiting than there is.
  if (finding.gain.saved_ns > waiting.data_ns && waiting.contended_ns > 0) {
    finding.gain.how += "; and the compute that this work slows down on the same cores";
  }
  return finding;
}

Finding less_by_unknown(Finding text) {
  text.severity = Severity::kWarning;
  return text;
}

}  // namespace millrace::advise
