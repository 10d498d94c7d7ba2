// compressed-samples: samples are decompressed every time they are read.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Known by the regions of libraries, and otherwise by the format of the data.
bool decompresses(const Case& given) {
  const bool is_marked =
      50 * given.loading.decompress_ns >= given.loading.work_ns && given.loading.decompress_ns > 0;
  if (!is_marked) {
    // What regions show is something else.
    const bool is_other =
        2 * (given.loading.decode_ns + given.loading.parse_ns) >= given.loading.other_ns;
    return given.format.format == Format::kCompressed && (given.loading.other_ns == 0 || !is_other);
  }
  const uint64_t weight = given.format.format == Format::kCompressed ? 2 : 1;
  return weight * given.loading.decompress_ns >= own_code_ns(given.loading) &&
         given.loading.decompress_ns >= std::max(given.loading.parse_ns, given.loading.decode_ns);
}

Finding compressed_samples_text(const Case& given) {
  return {
      .kind = "compressed samples",
      .details = fmt::format("{} is unpacked every epoch", given.format.extension),
      .evidence =
          {at("extensions:" + given.format.extension, "{} were read from {} files in {}",
              format_bytes(given.io.bytes_read), given.format.extension,
              counted(given.epochs, "epoch", "epochs")),
           at("loading",
              "of {} of loading, decompression and other code took {}, calls that read or open "
              "files {}",
              duration(given.waiting.work_ns), duration(given.loading.other_ns),
              duration(given.loading.read_ns + given.loading.metadata_ns))},
      .threshold =
          "half of the loading, and 5 % of training time to gain: gzip delivers 200 to 400 MB/s on "
          "one core",
      .changes =
          {{"pytorch",
            "store the samples uncompressed (np.save instead of np.savez_compressed, then "
            "np.load(..., mmap_mode='r')), or compress with zstd or LZ4; add workers up to the "
            "cores per rank"},
           {"tf.data",
            "write TFRecord files without compression, or cache() after decompression on a local "
            "disk"}},
      .gain = {.how = "the waiting for decompression and the code around it, minus 100 us for each "
                      "file without compression"}};
}

}  // namespace

Judged judge_compressed_samples(const Case& given) {
  if (given.waiting.work_ns == 0 || !decompresses(given)) return {};
  if (reread_file(given) != nullptr || opens_archive(given)) return {};
  // A file for each sample still has to be opened and understood.
  constexpr uint64_t kPlainFileNs = 100'000;
  const bool has_own_file = 2 * given.loading.opens >= given.loading.samples;
  const uint64_t left_ns = given.loading.samples * (has_own_file ? kPlainFileNs : kSampleNs);
  const uint64_t around_ns = own_code_ns(given.loading) + given.loading.decompress_ns;
  const uint64_t code_ns = minus(around_ns, left_ns);
  const uint64_t saved_ns = given.waiting.due_to(code_ns);
  if (2 * code_ns < given.waiting.work_ns || given.waiting.share(saved_ns) < kWaitShareMin)
    return {};
  return less_waiting(given.waiting, saved_ns, compressed_samples_text(given));
}

}  // namespace millrace::advise
