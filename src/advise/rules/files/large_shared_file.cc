// large-shared-file: many ranks read one large file from shared storage.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

Finding large_shared_file_text(const Case& given, const analyze::FileStats& file) {
  const uint64_t parts = std::clamp<uint64_t>(file.size_bytes / kGiB, file.readers, 1024);
  const auto per_part = format_bytes(std::max<uint64_t>(file.size_bytes / parts, 1));
  return {
      .kind = "server bottleneck",
      .details =
          fmt::format("{} ranks read one file of {}", file.readers, format_bytes(file.size_bytes)),
      .evidence = {at("files:" + file.path, "{}: {} of the {} of data read, by {} ranks", file.path,
                      format_percent(ratio(file.io.bytes_read, given.io.bytes_read)),
                      format_bytes(given.io.bytes_read), file.readers),
                   at("files:" + file.path, "its reads took {}, at {} per thread",
                      duration(file.io.read_ns),
                      format_bandwidth(ratio(file.io.bytes_read, file.io.read_ns) * 1e9))},
      .threshold =
          "at least 1 GiB, four ranks and half of the bytes: unless striped, a file lies on one "
          "server, which delivers about 1 to 5 GB/s to all clients together",
      .changes = {{"pytorch",
                   fmt::format("split it into {} files of about {}, and give each rank whole files",
                               parts, per_part)},
                  {"tf.data",
                   fmt::format("split it into {} TFRecord files of about {}, then shard() and "
                               "interleave() over them",
                               parts, per_part)},
                  {"hdf5",
                   "if it must stay one file: use chunks of at least 1 MiB, aligned to the stripes "
                   "(H5Pset_alignment(fapl, 65536, stripe size))"},
                  {"lustre",
                   fmt::format("stripe it over several servers: {}, then copy the file again",
                               stripe_command(given, 4 * kMiB, file.size_bytes))}},
      .gain = {
          .how = "half of the waiting for this file: if one server is the bottleneck, a second one "
                 "halves the time"}};
}

}  // namespace

Judged judge_large_shared_file(const Case& given) {
  constexpr uint64_t kSizeMin = kGiB;
  constexpr uint32_t kReadersMin = 4;
  if (!given.is_on_shared_storage) return {};
  if (given.waiting.share(given.waiting.io_ns) < kWaitShareMin) return {};
  const analyze::FileStats* file = nullptr;
  for (const analyze::FileStats& candidate : given.profile.files) {
    if (candidate.kind != analyze::FileKind::kData || candidate.readers < kReadersMin) continue;
    if (candidate.size_bytes < kSizeMin) continue;
    if (file == nullptr || candidate.io.read_ns > file->io.read_ns) file = &candidate;
  }
  if (file == nullptr || !given.waiting.matters(given.waiting.due_to(file->io.read_ns) / 2))
    return {};
  if (2 * file->io.bytes_read < given.io.bytes_read) return {};
  return less_waiting(given.waiting, given.waiting.due_to(file->io.read_ns) / 2,
                      large_shared_file_text(given, *file));
}

}  // namespace millrace::advise
