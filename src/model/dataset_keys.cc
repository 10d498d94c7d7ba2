// The section `dataset`: which files, of which format, and how large.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "analyze/files/file_kinds.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "model/derive.h"

namespace millrace::model {
namespace {

using analyze::FileStats;
using analyze::Profile;

constexpr size_t kFilesForStdevMin = 10;
// An epoch that visits less of the dataset is a part of it.
constexpr double kWholeEpoch = 0.9;

bool is_data(const FileStats& file) { return file.kind == analyze::FileKind::kData; }

struct ListedFiles {
  std::vector<const FileStats*> all;
  uint64_t size_bytes = 0;
};

std::map<std::string, ListedFiles> listed_by_extension(const Profile& profile) {
  std::map<std::string, ListedFiles> groups;
  for (const FileStats& file : profile.files) {
    if (!is_data(file)) continue;
    ListedFiles& group = groups[analyze::extension_of(file.path)];
    group.all.push_back(&file);
    group.size_bytes += file.size_bytes;
  }
  return groups;
}

// A file that is read again and again beside the samples (labels, statistics) is smaller than they
// are: the dataset is what has most bytes.
const analyze::GroupStats* largest_group(const Profile& profile,
                                         const std::map<std::string, ListedFiles>& listed) {
  const analyze::GroupStats* most = nullptr;
  for (const analyze::GroupStats& group : profile.extensions) {
    const bool is_used = group.io.bytes_read > 0 || group.io.maps > 0;
    if (!is_used || listed.count(group.name) == 0) continue;
    if (most == nullptr || group.size_bytes > most->size_bytes) most = &group;
  }
  return most;
}

bool is_eval_word(std::string_view word) {
  constexpr std::string_view kWords[] = {"val",        "valid", "validation", "eval",
                                         "evaluation", "test",  "dev"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

// Whether a folder of the path, or how the name begins, says that it is for evaluations.
bool is_eval_path(std::string_view path) {
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    std::string_view word = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (path.empty()) {
      const auto end = std::find_if_not(word.begin(), word.end(),
                                        [](unsigned char c) { return std::isalpha(c) != 0; });
      word = word.substr(0, static_cast<size_t>(end - word.begin()));
    }
    std::string lower(word);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (is_eval_word(lower)) return true;
  }
  return false;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Fills in what only the single files tell.
void look_at_files(const ListedFiles& listed, DataFiles& files) {
  std::set<std::string> folders[2];
  uint64_t eval_files = 0;
  double sum = 0;
  double squares = 0;
  for (const FileStats* file : listed.all) {
    const bool is_eval = is_eval_path(file->path);
    eval_files += is_eval ? 1 : 0;
    folders[is_eval ? 1 : 0].insert(folder_of(file->path));
    const auto size = static_cast<double>(file->size_bytes);
    sum += size;
    squares += size * size;
  }
  const auto count = static_cast<double>(listed.all.size());
  if (listed.all.size() >= kFilesForStdevMin) {
    files.size_stdev_bytes = std::sqrt(std::max(squares / count - sum * sum / count / count, 0.0));
  }
  if (!files.listed) return;
  files.split_by_name = eval_files > 0 && eval_files < listed.all.size();
  if (!files.split_by_name) folders[0].insert(folders[1].begin(), folders[1].end());
  files.eval_files = files.split_by_name ? eval_files : 0;
  files.train_folders = folders[0].size();
  files.eval_folders = files.split_by_name ? folders[1].size() : 0;
}

// Without telling names: each sample of an evaluation is a file.
void split_by_counts(const Counts& counts, DataFiles& files) {
  const uint64_t all = files.all_files;
  if (counts.eval_passes == 0 && counts.epochs_marked) files.eval_files = 0;
  if (counts.eval_passes > 0 && !files.split_by_name && counts.samples_per_epoch > 0) {
    const uint64_t rest = all - std::min(all, counts.samples_per_epoch);
    if (rest > 0 && counts.eval_samples > 0 && counts.samples_per_epoch > all / 4) {
      files.eval_files = std::min(rest, counts.eval_samples);
    }
  }
  files.train_files = std::max<uint64_t>(all - std::min(all, files.eval_files), 1);
}

// Ranks that do not share the samples read all of them each. A stream that every worker reads
// completely also visits each file several times. Samples that open their file again read it
// several times as well, but with an open for each sample.
uint64_t repeats_of(const Profile& profile, const Counts& counts, const DataFiles& files) {
  if (files.size_bytes == 0 || counts.samples_per_epoch == 0) return 1;
  const double read = static_cast<double>(files.io.bytes_read) /
                      static_cast<double>(files.size_bytes * counts.epochs);
  const double whole = std::round(read);
  if (whole < 2 || std::abs(read - whole) > 0.1 * whole) return 1;
  const auto times = static_cast<uint64_t>(whole);
  const analyze::DataUse& data = profile.data;
  const bool is_of_ranks = times == counts.ranks && 10 * data.files_shared >= 9 * data.files_read;
  const bool is_of_stream =
      data.samples_indexed == 0 && files.io.opens * 2 <= profile.loading.samples;
  return is_of_ranks || is_of_stream ? times : 1;
}

// An index beside the samples: offsets that are read before the sample.
bool has_index(const std::map<std::string, ListedFiles>& listed) {
  return listed.count(".idx") > 0;
}

// Evaluations over files of several samples: as many files as have those samples.
void count_eval_files(const Counts& counts, DataFiles& files) {
  if (counts.eval_passes == 0 || counts.eval_samples == 0 || files.samples_per_file == 1) return;
  files.eval_files = std::max<uint64_t>(
      (counts.eval_samples + files.samples_per_file / 2) / files.samples_per_file, 1);
}

uint64_t samples_per_file_of(const Counts& counts, const DataFiles& files) {
  if (files.format.one_sample_per_file || counts.samples_per_epoch == 0) return 1;
  const double samples = static_cast<double>(counts.samples_per_epoch) /
                         static_cast<double>(files.repeats * files.train_files);
  return std::max<uint64_t>(static_cast<uint64_t>(std::llround(samples)), 1);
}

std::string files_text(const DataFiles& files) {
  return fmt::format("{} named *{}", counted(files.all_files, "data file", "data files"),
                     files.extension == "(none)" ? "" : printable(files.extension));
}

void set_format(const DataFiles& files, Sheet& sheet) {
  bench::DatasetConfig& dataset = sheet.workload().dataset;
  const std::string read = format_bytes(files.io.bytes_read, ByteUnits::kDecimal);
  if (files.format.known) {
    sheet.set("dataset.format", dataset.format, files.format.format,
              fmt::format("{}; {} were read from them", files_text(files), read));
  } else {
    sheet.assume("dataset.format", dataset.format, files.format.format,
                 fmt::format("{}: there is no such format", files_text(files)));
    sheet.assumption(fmt::format("Files named *{} are modelled as raw samples of the same size.",
                                 printable(files.extension)));
  }
  if (files.format.compression != bench::Compression::kNone) {
    sheet.set("dataset.compression", dataset.compression, files.format.compression,
              "the names end in .gz");
  }
  if (files.mapped) {
    sheet.missing(
        "The files were mapped: the trace does not show their reads. The model reads "
        "each sample instead.");
  }
}

void set_eval_files(const Evidence& evidence, Sheet& sheet) {
  const DataFiles& files = evidence.files;
  const uint64_t samples = evidence.counts.eval_samples;
  bench::DatasetConfig& dataset = sheet.workload().dataset;
  const bool by_name = files.split_by_name && files.samples_per_file == 1;
  sheet.set("dataset.num_files_eval", dataset.num_files_eval, files.eval_files,
            by_name ? "files that are named as for evaluations"
                    : fmt::format("{} of an evaluation", counted(samples, "sample", "samples")));
  const uint64_t modelled = files.eval_files * files.samples_per_file;
  if (samples > 0 && 5 * modelled > 6 * samples) {
    sheet.missing(fmt::format(
        "An evaluation of the job has {} samples, that of the model {}: all files of a workload "
        "have the same number of samples.",
        format_exact(samples), format_exact(modelled)));
  }
}

void set_file_counts(const Evidence& evidence, Sheet& sheet) {
  const DataFiles& files = evidence.files;
  bench::DatasetConfig& dataset = sheet.workload().dataset;
  const std::string split = files.split_by_name ? ", by the names of their folders" : "";
  sheet.set("dataset.num_files_train", dataset.num_files_train, files.train_files,
            files.eval_files == 0
                ? files_text(files)
                : fmt::format("{}, without those of evaluations{}", files_text(files), split));
  if (files.eval_files > 0) set_eval_files(evidence, sheet);
  const uint64_t samples = evidence.counts.samples_per_epoch;
  if (samples == 0) {
    sheet.assume("dataset.num_samples_per_file", dataset.num_samples_per_file,
                 files.samples_per_file, "no regions show samples");
  } else {
    sheet.set("dataset.num_samples_per_file", dataset.num_samples_per_file, files.samples_per_file,
              files.format.one_sample_per_file
                  ? "an image is one sample"
                  : fmt::format("{} in an epoch", counted(samples, "sample", "samples")));
  }
}

void set_folders(const DataFiles& files, Sheet& sheet) {
  bench::DatasetConfig& dataset = sheet.workload().dataset;
  if (files.train_folders > 1) {
    sheet.set("dataset.num_subfolders_train", dataset.num_subfolders_train, files.train_folders,
              "folders with these files");
  }
  if (files.eval_folders > 1) {
    sheet.set("dataset.num_subfolders_eval", dataset.num_subfolders_eval, files.eval_folders,
              "folders with these files");
  }
}

void set_sizes(const DataFiles& files, Sheet& sheet) {
  bench::DatasetConfig& dataset = sheet.workload().dataset;
  const uint64_t count = files.all_files;
  const StoredSize stored = stored_size_of(files.format.format);
  const double mean = static_cast<double>(files.size_bytes) / static_cast<double>(count);
  std::string why = fmt::format(
      "{} in {}, {} each", format_bytes(files.size_bytes, ByteUnits::kDecimal),
      counted(count, "file", "files"), counted(files.samples_per_file, "sample", "samples"));
  if (stored.bytes_per_byte != 1) {
    why += fmt::format("; as {}, a random byte takes {} bytes", name_of(files.format.format),
                       stored.bytes_per_byte);
  }
  sheet.set("dataset.record_length_bytes", dataset.record_length_bytes,
            std::round(stored.record_bytes(mean, files.samples_per_file)), why);
  const double stdev =
      files.size_stdev_bytes / static_cast<double>(files.samples_per_file) / stored.bytes_per_byte;
  if (stdev < 0.005 * dataset.record_length_bytes) return;
  sheet.set("dataset.record_length_bytes_stdev", dataset.record_length_bytes_stdev,
            std::round(stdev),
            files.listed ? "sizes of the files" : "sizes of the files that the profile lists");
  if (!files.listed) {
    sheet.assumption(
        "The profile lists only the files with most bytes and time: the deviation of "
        "the sizes is theirs.");
  }
}

// A job that has its data in memory, or makes it up.
void set_synthetic(const Evidence& evidence, Sheet& sheet) {
  bench::DatasetConfig& dataset = sheet.workload().dataset;
  sheet.assume("dataset.format", dataset.format, bench::DatasetFormat::kSynthetic,
               "the job read no data files");
  const uint64_t samples = std::max<uint64_t>(evidence.counts.samples_per_epoch, 1);
  sheet.set("dataset.num_files_train", dataset.num_files_train, samples, "samples in an epoch");
  sheet.missing("The trace shows no reads of data files: the model reads nothing.");
}

}  // namespace

DataFiles data_files_of(const Profile& profile, const Counts& counts) {
  const auto listed = listed_by_extension(profile);
  const analyze::GroupStats* group = largest_group(profile, listed);
  if (group == nullptr) return {};
  const ListedFiles& own = listed.at(group->name);
  const auto is_listed =
      static_cast<uint64_t>(std::count_if(profile.files.begin(), profile.files.end(), is_data));
  DataFiles files{.extension = group->name,
                  .format = format_of_name(group->name, own.all.front()->path)};
  files.listed = is_listed >= profile.job.dataset_files;
  files.io = group->io;
  files.mapped = group->io.maps > 0 && group->io.bytes_read < group->size_bytes / 2;
  files.all_files = files.listed ? own.all.size() : group->files;
  files.size_bytes = files.listed ? own.size_bytes : group->size_bytes;
  look_at_files(own, files);
  split_by_counts(counts, files);
  files.repeats = repeats_of(profile, counts, files);
  files.samples_per_file = samples_per_file_of(counts, files);
  count_eval_files(counts, files);
  if (files.extension == ".bin" && has_index(listed)) {
    files.format.format = files.mapped ? bench::DatasetFormat::kMmapIndexedBinary
                                       : bench::DatasetFormat::kIndexedBinary;
  }
  return files;
}

void derive_dataset(const Evidence& evidence, Sheet& sheet) {
  const DataFiles& files = evidence.files;
  bench::DatasetConfig& dataset = sheet.workload().dataset;
  sheet.set("dataset.data_folder", dataset.data_folder,
            fmt::format("data/{}/", sheet.workload().name), "not the job's own: it is generated");
  if (files.empty()) return set_synthetic(evidence, sheet);
  set_format(files, sheet);
  set_file_counts(evidence, sheet);
  set_folders(files, sheet);
  set_sizes(files, sheet);
  const uint64_t others = evidence.profile.job.dataset_files -
                          std::min(evidence.profile.job.dataset_files, files.all_files);
  if (others > 0) {
    sheet.missing(fmt::format("{} with other extensions than {}.",
                              counted(others, "data file", "data files"),
                              printable(files.extension)));
  }
  const auto samples = static_cast<double>(evidence.counts.samples_per_epoch);
  if (samples > 0 && samples < kWholeEpoch * static_cast<double>(files.train_samples())) {
    sheet.assumption(fmt::format(
        "An epoch of the job reads {} of {} samples. In the model, an epoch is all of them.",
        format_exact(evidence.counts.samples_per_epoch), format_exact(files.train_samples())));
  }
}

}  // namespace millrace::model
