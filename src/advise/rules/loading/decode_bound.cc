// decode-bound: training waits for decoding on the CPU. Other code of the dataset is
// slow-transform's.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"

namespace millrace::advise {
namespace {

// Files that are opened for each sample: np.load and the like are many-small-files' or
// repeated-opens'.
bool opens_each_sample(const analyze::Loading& loading) {
  constexpr uint64_t kCodeOfFileNs = 1'000'000;  // more is not for opening a file
  return 2 * loading.opens >= loading.samples && loading.samples > 0 &&
         loading.other_ns < loading.opens * kCodeOfFileNs;
}

// Programs that mark decoding, but not the fetching around it: then I/O and decoding are the work.
analyze::Loading loading_of(const Case& given) {
  if (given.waiting.work_ns > 0 || given.profile.time.basis != analyze::WaitBasis::kRegions) {
    return given.loading;
  }
  analyze::Loading loading;
  for (const analyze::FunctionStats& function : given.profile.functions) {
    const bool decodes =
        function.role == analyze::Role::kDecode || function.role == analyze::Role::kDecompress ||
        function.role == analyze::Role::kParse || function.role == analyze::Role::kTransform ||
        function.role == analyze::Role::kCollate;
    if (decodes) loading.other_ns += function.time_ns;
    if (function.role == analyze::Role::kDecode) loading.decode_ns += function.time_ns;
  }
  loading.read_ns = given.io.read_ns;
  loading.metadata_ns = given.io.metadata_ns;
  loading.work_ns = loading.other_ns + given.io.read_ns + given.io.metadata_ns;
  return loading;
}

// What the code of loading mostly does.
struct Code {
  bool decodes = false;
  bool collates = false;
  uint64_t time_ns = 0;  // in what it mostly does
  uint64_t all_ns = 0;   // in code of any kind
};

// Decoding is known by the regions of libraries, and otherwise by the format of the data.
Code code_of(const Case& given, const analyze::Loading& loading) {
  const bool is_image = given.format.format == Format::kImages;
  Code code;
  if (2 * loading.collate_ns >= loading.work_ns) {
    code.collates = true;
    code.time_ns = loading.collate_ns;
    code.all_ns = code.time_ns;
    return code;
  }
  const bool is_marked = 50 * loading.decode_ns >= loading.work_ns && loading.decode_ns > 0;
  const uint64_t own_ns = own_code_ns(loading) + loading.transform_ns;
  // Resizing to what training uses is part of decoding. Of an archive that is opened for each
  // sample, the rest is something else.
  const bool is_rest = opens_archive(given);
  code.decodes = is_marked ? (is_rest ? 1 : 2) * loading.decode_ns >= own_ns : is_image;
  if (code.decodes) {
    code.time_ns =
        is_marked && is_rest ? loading.decode_ns : loading.other_ns + loading.transform_ns;
  } else {
    code.time_ns = is_marked ? own_ns : own_code_ns(loading);
    code.time_ns -= std::min(code.time_ns, code_around_storm(given));
  }
  code.all_ns = is_marked ? loading.other_ns + loading.transform_ns : code.time_ns;
  return code;
}

// Text and compressed samples have rules of their own, unless regions show that this is little of
// the code, or unless they were read once, before loading: then code works on what is in memory.
bool has_own_rule(const Case& given, const analyze::Loading& loading, const Code& code) {
  if (code.decodes) return false;
  if (given.format.format == Format::kText) {
    return loading.reads > 0 && 2 * parsing_ns_max(given) >= code.time_ns;
  }
  if (given.format.format != Format::kCompressed) return false;
  return loading.decompress_ns == 0 || loading.decompress_ns >= code.time_ns;
}

std::vector<Change> code_changes(const Code& code) {
  if (code.collates) {
    return {{"pytorch",
             "let collate_fn stack arrays (torch.stack, np.stack, pad_sequence) instead of looping "
             "over values; or return whole batches from the dataset (__getitems__)"},
            {"loader", "use millrace.DataLoader: samples are copied into the batch once"}};
  }
  if (code.decodes) {
    return {
        {"pytorch",
         "decode with torchvision.io.decode_image or DALI instead of PIL; decode to the size that "
         "training uses (PIL: image.draft('RGB', size)); add workers up to the cores per rank"},
        {"tf.data",
         "decode in parallel: map(decode, num_parallel_calls=tf.data.AUTOTUNE); use "
         "tf.image.decode_and_crop_jpeg; cache() after decoding if the values fit in memory"},
        {"loader", "use millrace.DataLoader: it decodes on threads, and only what a crop needs"},
        {"any", "store smaller images: resize once to little more than training uses"}};
  }
  return {{"pytorch",
           "profile the dataset's __getitem__ (python -m cProfile, py-spy): do its work once and "
           "store the result as arrays, or on whole batches with NumPy; add workers up to the "
           "cores per rank"},
          {"tf.data", "map(..., num_parallel_calls=tf.data.AUTOTUNE); cache() after it if it fits"},
          {"loader",
           "use millrace.DataLoader with the same dataset: its worker processes hand over batches "
           "without copies"}};
}

std::string what_is_decoded(const DataFormat& format) {
  if (format.format == Format::kImages) return format.extension;
  return format.extension.empty() ? "its samples" : "what is in " + format.extension;
}

// Decoding is what the libraries were seen to do; transforms and other code come with it.
bool is_mostly_other(const analyze::Loading& loading, const Code& code) {
  return loading.decode_ns > 0 && 2 * loading.decode_ns < code.time_ns;
}

std::string mostly_for(const analyze::Loading& loading, const Code& code) {
  if (code.collates) return "collating samples into batches";
  if (!code.decodes) return "the dataset's own code";
  return is_mostly_other(loading, code) ? "decoding and transforming" : "decoding";
}

std::string kind_of_code(const Code& code, const std::string& mostly_for,
                         const DataFormat& format) {
  if (code.collates) return "training waits for " + mostly_for;
  if (!code.decodes) return "training waits for " + mostly_for + ", not for storage";
  return fmt::format("training waits for {} {} on the CPU", mostly_for, what_is_decoded(format));
}

// "decoding took 12.3 s, transforms and other code 16.2 s"
std::string parts_of(const analyze::Loading& loading, const Code& code) {
  if (code.collates) return "collating took " + duration(code.time_ns);
  if (!code.decodes) return "code of the dataset took " + duration(code.time_ns);
  if (loading.decode_ns == 0) {
    return fmt::format("decoding and other code took {}", duration(code.time_ns));
  }
  std::string text = "decoding took " + duration(loading.decode_ns);
  const uint64_t rest_ns = minus(code.time_ns, loading.decode_ns);
  if (rest_ns > 0) text += fmt::format(", transforms and other code {}", duration(rest_ns));
  return text;
}

Finding code_text(const Case& given, const analyze::Loading& loading, const Code& code) {
  const std::string most = mostly_for(loading, code);
  return {
      .kind = kind_of_code(code, most, given.format),
      .mostly_for = most,
      .evidence = {waiting_for_data(given),
                   at("loading", "of {} of loading, {}, calls that read or open files {}",
                      duration(loading.work_ns), parts_of(loading, code),
                      duration(loading.read_ns + loading.metadata_ns))},
      .threshold =
          "5 % of training time to gain, and half of the loading in code: faster storage would "
          "save less than half of it",
      .changes = code_changes(code),
      .gain = {.how = code.decodes
                          ? "eight tenths of the waiting for decoding and the code around "
                            "it: between a decoder twice as fast and samples that need none"
                          : "eight tenths of the waiting for this code: between twice as fast and "
                            "done ahead of time"}};
}

}  // namespace

Judged judge_code(const Case& given, bool decoding) {
  const analyze::Loading loading = loading_of(given);
  if (loading.work_ns == 0 || given.waiting.share(given.waiting.data_ns) < kWaitShareMin) return {};
  if (given.loads_between_steps) return {};  // prefetch would hide it
  const Code code = code_of(given, loading);
  const bool collates = code.collates;
  const bool is_image = code.decodes;
  // A program that marks decoding but no fetching says itself what it does.
  if ((is_image || given.waiting.work_ns == 0) != decoding) return {};
  if (!collates && has_own_rule(given, loading, code)) return {};
  if (!collates && !is_image && opens_each_sample(loading)) return {};
  const uint64_t decode_ns = code.time_ns;
  const bool transforms = 2 * loading.transform_ns > loading.other_ns + loading.transform_ns;
  if (transforms && !is_image && loading.decode_ns == 0) return {};
  if (2 * code.all_ns < loading.work_ns || 4 * decode_ns < loading.work_ns) return {};
  // A decoder twice as fast, workers on idle cores, or samples stored in the wanted size save from
  // a third to nearly all of it.
  const uint64_t decoding_ns =
      given.waiting.work_ns > 0 ? given.waiting.due_to(decode_ns)
                                : scaled(given.waiting.data_ns, ratio(decode_ns, loading.work_ns));
  const uint64_t saved_ns = scaled(decoding_ns, kSavedOfCode);
  if (given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_waiting(given.waiting, saved_ns, code_text(given, loading, code));
}

Judged judge_decode_bound(const Case& given) { return judge_code(given, /*decoding=*/true); }

}  // namespace millrace::advise
