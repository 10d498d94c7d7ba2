// The verb `store`: packs a dataset for the storage of a job's nodes, and serves it there.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/system/progress.h"
#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/spelling.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/options/inputs.h"
#include "cli/store/mount.h"
#include "cli/store/node.h"
#include "cli/store/tars.h"
#include "cli/verbs.h"
#include "store/pack/extract.h"
#include "store/pack/packer.h"
#include "store/pack/verify.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

using store::Catalogue;
using store::PackReader;
using wire::CatalogueEntry;
using wire::EntryKind;

constexpr size_t kProblemsShown = 20;

store::CodecChoice codec_of(const Arguments& arguments) {
  const std::string name = arguments.value("codec").value_or("auto");
  if (name == "zstd") return store::CodecChoice::kZstd;
  if (name == "lz4") return store::CodecChoice::kLz4;
  if (name == "none") return store::CodecChoice::kNone;
  return store::CodecChoice::kAuto;
}

bool are_all(const std::vector<std::string>& paths, std::string_view extension) {
  return std::all_of(paths.begin(), paths.end(), [&](const std::string& path) {
    std::error_code error;
    return path.ends_with(extension) && fs::is_regular_file(path, error);
  });
}

// ---- pack ---------------------------------------------------------------------------------------

std::string pack_text(const std::string& directory, const store::PackReport& report) {
  const double speed =
      report.seconds > 0 ? static_cast<double>(report.content_bytes) / report.seconds : 0;
  std::string out =
      fmt::format("{}: {} of {} in {} of {}, {:.1f} s, {}\n", printable(directory),
                  counted(report.file_count, "file", "files"), format_bytes(report.content_bytes),
                  counted(report.partition_count, "partition", "partitions"),
                  format_bytes(report.pack_bytes), report.seconds, format_bandwidth(speed));
  if (report.kept_count != 0) {
    out +=
        fmt::format("  {} complete already\n",
                    report.kept_count == 1 ? std::string("1 partition was")
                                           : fmt::format("{} partitions were", report.kept_count));
  }
  const uint64_t compressed = report.file_count - report.raw_count;
  if (compressed != 0) {
    out += fmt::format("  {} compressed\n", counted(compressed, "file is", "files are"));
  }
  return out;
}

Result<int> pack_source(const Arguments& arguments, const std::string& source,
                        const std::string& directory, Output& output) {
  return with_ranks([&](comm::Comm& comm) -> Result<int> {
    store::PackOptions options{.source = source,
                               .directory = directory,
                               .codec = codec_of(arguments),
                               .broadcast = arguments.values("broadcast")};
    options.partition_count =
        static_cast<uint32_t>(std::min<uint64_t>(count_of(arguments, "partitions", 0), UINT32_MAX));
    options.thread_count = count_of(arguments, "threads", 0);
    std::optional<Progress> progress;
    progress.emplace(Progress::Options{.label = "listing"});
    options.on_listed = [&](uint64_t entries) { progress->add(entries); };
    options.begin = [&](uint64_t bytes) {
      progress.emplace(Progress::Options{.label = "packing", .total = bytes, .counts_bytes = true});
    };
    options.on_packed = [&](uint64_t bytes) { progress->add(bytes); };
    auto report = store::pack_directory(options, comm);
    progress.reset();
    if (!report.ok()) return std::move(report).error();
    if (comm.rank() != comm::kFirstRank) return kExitSuccess;
    for (size_t i = 0; i < report->skipped.size() && i < kProblemsShown; ++i) {
      fmt::print(stderr, "millrace: {}: not packed: it is neither a file, directory nor link\n",
                 printable(report->skipped[i]));
    }
    output.print(pack_text(directory, *report));
    return kExitSuccess;
  });
}

Result<int> pack_tars(const Arguments& arguments, const std::vector<std::string>& tars,
                      const std::string& directory, Output& output) {
  ASSIGN_OR_RETURN(store::TarSource source, read_tars(tars));
  source.thread_count = count_of(arguments, "threads", 0);
  uint64_t bytes = 0;
  uint64_t files = 0;
  for (const store::Member& member : source.members) {
    if (member.entry.kind != EntryKind::kFile) continue;
    bytes += member.entry.size_bytes;
    ++files;
  }
  Progress progress({.label = "reading", .total = bytes, .counts_bytes = true});
  source.on_progress = [&](uint64_t amount) { progress.add(amount); };
  RETURN_IF_ERROR(store::catalogue_tars(std::move(source), directory));
  output.print(fmt::format("{}: {} of {} in {}, which stay where they are\n", printable(directory),
                           counted(files, "file", "files"), format_bytes(bytes),
                           counted(tars.size(), "tar file", "tar files")));
  return kExitSuccess;
}

Status check_sources(const Arguments& arguments) {
  const std::vector<std::string>& sources = arguments.positionals();
  const bool are_packed = are_all(sources, ".tar") || are_all(sources, ".pack");
  if (!are_packed && sources.size() > 1) {
    return fail(
        Errc::kInvalidArgument,
        "store pack takes one directory, or .tar files, or .pack files, not {} other things",
        sources.size());
  }
  for (const std::string_view option : {"partitions", "codec", "broadcast"}) {
    if (!are_packed || !arguments.has(option)) continue;
    return fail(Errc::kInvalidArgument,
                "--{} is for a directory; .tar and .pack files stay as they are", option);
  }
  return {};
}

Result<int> run_pack(const Arguments& arguments, Output& output) {
  const std::vector<std::string>& sources = arguments.positionals();
  const std::string directory = *arguments.value("output");
  if (are_all(sources, ".tar")) return pack_tars(arguments, sources, directory, output);
  if (are_all(sources, ".pack")) {
    RETURN_IF_ERROR(store::rebuild_catalogue({sources.begin(), sources.end()}, directory));
    output.print(fmt::format("{}: the catalogue of {} is written\n", printable(directory),
                             counted(sources.size(), "partition", "partitions")));
    return kExitSuccess;
  }
  return pack_source(arguments, sources.front(), directory, output);
}

// ---- list ---------------------------------------------------------------------------------------

std::string mode_text(const CatalogueEntry& entry) {
  constexpr std::string_view kLetters = "rwxrwxrwx";
  constexpr std::string_view kKinds = "?-dl";
  std::string out(1, kKinds[static_cast<uint8_t>(entry.kind) & 3]);
  for (size_t i = 0; i < kLetters.size(); ++i) {
    out += (entry.mode >> (8 - i) & 1) != 0 ? kLetters[i] : '-';
  }
  return out;
}

std::string kind_text(EntryKind kind) {
  return kind == EntryKind::kFile ? "file" : kind == EntryKind::kDirectory ? "directory" : "link";
}

std::string long_line(const Catalogue& catalogue, uint32_t index) {
  const CatalogueEntry entry = catalogue.entry(index);
  const bool is_file = entry.kind == EntryKind::kFile;
  std::string line = fmt::format(
      "{} {:>12} {:>12} {:<5} {:>5} {}  {}", mode_text(entry), is_file ? entry.size_bytes : 0,
      entry.packed_bytes, is_file ? store::encoding_name({entry.codec, 0}) : std::string("-"),
      is_file ? std::to_string(entry.partition) : std::string("-"), utc_text(entry.mtime_ns),
      printable(catalogue.path(index)));
  if (entry.kind == EntryKind::kLink) {
    line += fmt::format(" -> {}", printable(catalogue.link_target(index)));
  }
  return line;
}

void write_entry(JsonWriter& json, const Catalogue& catalogue, uint32_t index) {
  const CatalogueEntry entry = catalogue.entry(index);
  json.begin_object(JsonLayout::kOneLine);
  json.field("path", catalogue.path(index));
  json.field("kind", kind_text(entry.kind));
  json.field("mode", fmt::format("{:04o}", entry.mode));
  json.field("mtime_ns", entry.mtime_ns);
  if (entry.kind == EntryKind::kLink) json.field("target", catalogue.link_target(index));
  if (entry.kind == EntryKind::kFile) {
    json.field("bytes", entry.size_bytes);
    json.field("packed_bytes", entry.packed_bytes);
    json.field("partition", entry.partition);
    json.field("offset", entry.offset_bytes);
    json.field("codec", store::encoding_name({entry.codec, 0}));
    json.field("shuffle", entry.shuffle);
    json.field("crc32c", fmt::format("{:08x}", entry.crc32c));
    json.field("broadcast", (entry.flags & wire::kEntryBroadcast) != 0);
  }
  json.end_object();
}

std::string list_json(const Catalogue& catalogue) {
  JsonWriter json;
  json.begin_object();
  json.field("origin", catalogue.origin());
  json.field("files", catalogue.file_count());
  json.field("bytes", catalogue.content_bytes());
  json.field("catalogue_bytes", catalogue.size_bytes());
  json.key("partitions");
  json.begin_list();
  for (uint32_t i = 0; i < catalogue.partition_count(); ++i) {
    json.begin_object(JsonLayout::kOneLine);
    json.field("name", catalogue.partition_name(i));
    json.field("bytes", catalogue.partition(i).file_bytes);
    json.field("broadcast", catalogue.partition(i).kind == wire::PartitionKind::kBroadcast);
    json.field("tar", catalogue.partition(i).kind == wire::PartitionKind::kTar);
    json.end_object();
  }
  json.end_list();
  json.key("entries");
  json.begin_list();
  for (uint32_t i = 1; i < catalogue.entry_count(); ++i) write_entry(json, catalogue, i);
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

// The pack that list, verify and extract are about.
Result<PackReader> pack_of(const Arguments& arguments) {
  return PackReader::open(arguments.positionals().front());
}

Result<int> run_list(const Arguments& arguments, Output& output) {
  ASSIGN_OR_RETURN(const PackReader reader, pack_of(arguments));
  const Catalogue& catalogue = reader.catalogue();
  if (arguments.has("json")) {
    output.print(list_json(catalogue));
    return kExitSuccess;
  }
  // In the order of `find`: what is in a directory follows it.
  std::vector<uint32_t> open = {wire::kRootEntry};
  while (!open.empty()) {
    const uint32_t index = open.back();
    open.pop_back();
    if (index != wire::kRootEntry) {
      output.print(arguments.has("long") ? long_line(catalogue, index)
                                         : printable(catalogue.path(index)));
      output.print("\n");
    }
    const auto children = catalogue.children(index);
    for (uint32_t i = children.count; i > 0; --i) open.push_back(children.first + i - 1);
  }
  if (!arguments.has("long")) return kExitSuccess;
  uint64_t pack_bytes = 0;
  for (uint32_t i = 0; i < catalogue.partition_count(); ++i) {
    pack_bytes += catalogue.partition(i).file_bytes;
  }
  output.print(fmt::format(
      "{} of {} in {} of {}{}\n", counted(catalogue.file_count(), "file", "files"),
      format_bytes(catalogue.content_bytes()),
      counted(catalogue.partition_count(), "partition", "partitions"), format_bytes(pack_bytes),
      catalogue.origin().empty() ? std::string()
                                 : fmt::format(", packed from {}", printable(catalogue.origin()))));
  return kExitSuccess;
}

// ---- verify and extract -------------------------------------------------------------------------

Result<int> verify_with(const Arguments& arguments, Output& output, comm::Comm& comm) {
  ASSIGN_OR_RETURN(const PackReader reader, pack_of(arguments));
  const Catalogue& catalogue = reader.catalogue();
  std::vector<std::string> problems;
  {
    Progress progress({.label = "verifying",
                       .total = catalogue.content_bytes() / comm.size(),
                       .counts_bytes = true});
    store::VerifyOptions options{.thread_count = count_of(arguments, "threads", 0)};
    options.on_verified = [&](uint64_t bytes) { progress.add(bytes); };
    ASSIGN_OR_RETURN(problems, store::verify_pack(reader, options, comm));
  }
  const int code = problems.empty() ? kExitSuccess : kExitFailure;
  if (comm.rank() != comm::kFirstRank) return code;
  for (size_t i = 0; i < problems.size() && i < kProblemsShown; ++i) {
    fmt::print(stderr, "millrace: {}\n", problems[i]);
  }
  if (problems.size() > kProblemsShown) {
    fmt::print(stderr, "millrace: and {} more\n", problems.size() - kProblemsShown);
  }
  if (!problems.empty()) {
    output.print(fmt::format("{}: {}\n", printable(arguments.positionals().front()),
                             counted(problems.size(), "problem", "problems")));
    return code;
  }
  output.print(fmt::format(
      "{}: {} of {} in {}, all checksums are right\n", printable(arguments.positionals().front()),
      counted(catalogue.file_count(), "file", "files"), format_bytes(catalogue.content_bytes()),
      counted(catalogue.partition_count(), "partition", "partitions")));
  return code;
}

Result<int> run_verify(const Arguments& arguments, Output& output) {
  return with_ranks([&](comm::Comm& comm) { return verify_with(arguments, output, comm); });
}

Result<int> extract_with(const Arguments& arguments, Output& output, comm::Comm& comm) {
  const std::string directory = *arguments.value("output");
  ASSIGN_OR_RETURN(const PackReader reader, pack_of(arguments));
  const std::vector<std::string>& words = arguments.positionals();
  store::ExtractOptions options{.directory = directory,
                                .globs = {words.begin() + 1, words.end()},
                                .thread_count = count_of(arguments, "threads", 0)};
  store::ExtractReport report;
  {
    const uint64_t total = options.globs.empty() ? reader.catalogue().content_bytes() : 0;
    Progress progress({.label = "extracting", .total = total / comm.size(), .counts_bytes = true});
    options.on_extracted = [&](uint64_t bytes) { progress.add(bytes); };
    ASSIGN_OR_RETURN(report, store::extract_pack(reader, options, comm));
  }
  if (comm.rank() != comm::kFirstRank) return kExitSuccess;
  output.print(fmt::format("{}: {} of {}\n", printable(directory),
                           counted(report.file_count, "file", "files"),
                           format_bytes(report.size_bytes)));
  if (report.changed_mode_count != 0) {
    output.print(fmt::format(
        "{} without set-user-ID, set-group-ID and sticky bits, because the owner is another one\n",
        counted(report.changed_mode_count, "entry was extracted", "entries were extracted")));
  }
  return kExitSuccess;
}

Result<int> run_extract(const Arguments& arguments, Output& output) {
  return with_ranks([&](comm::Comm& comm) { return extract_with(arguments, output, comm); });
}

// ---- the actions --------------------------------------------------------------------------------

Option threads_option() { return count_option("threads", "threads that work (all CPUs)"); }

Positional pack_positional() {
  return {.name = "PACK",
          .help = "the directory of a pack, or one of its .pack files",
          .kind = ValueKind::kFile};
}

Command pack_action() {
  return {
      .name = "store pack",
      .summary = "write a dataset as a pack",
      .description =
          "Writes a directory as a pack: partitions with the files' bytes, and a catalogue of their "
          "names and places. Files that compress by less than 10 % are stored as they are. Under "
          "mpirun, the ranks divide the partitions. A pack appears complete or not at all; run "
          "again, an interrupted one continues. Existing packs are never replaced.\n\n"
          "Tar files (WebDataset) become a pack without being copied: only a catalogue is written. "
          "Given the .pack files of a pack, their catalogue is written again.",
      .options = {required(output_option(ValueKind::kDirectory, "the directory of the new pack")),
                  count_option("partitions", "number of partitions (one for each GiB)"),
                  {.name = "codec",
                   .value = "NAME",
                   .help = "how to compress; auto chooses for each file (auto)",
                   .choices = {"auto", "zstd", "lz4", "none"}},
                  {.name = "broadcast",
                   .value = "GLOB",
                   .help = "files that every node gets, such as 'val/**'",
                   .repeatable = true},
                  threads_option()},
      .positionals = {{.name = "SOURCE",
                       .help = "a directory, or .tar files, or .pack files",
                       .kind = ValueKind::kFile,
                       .repeatable = true}},
      .examples = {{"millrace store pack imagenet/ -o packs/ --partitions 64 --broadcast 'val/**'",
                    "the validation set goes to every node"},
                   {"mpirun -n 8 millrace store pack imagenet/ -o packs/ --codec none",
                    "eight ranks, no compression"},
                   {"millrace store pack shards/*.tar -o packs/",
                    "a catalogue of tar files, which are not copied"}},
      .check = check_sources,
      .run = run_pack,
  };
}

Command list_action() {
  return {
      .name = "store list",
      .summary = "list the files of a pack",
      .description = "Prints the paths of all files, directories and links of a pack.",
      .options = {{.name = "long", .help = "mode, length, codec, partition and time too"},
                  json_option()},
      .positionals = {pack_positional()},
      .examples = {{"millrace store list packs/ --long", "what is in it"}},
      .run = run_list,
  };
}

Command verify_action() {
  return {
      .name = "store verify",
      .summary = "compare every file of a pack with its checksum",
      .description =
          "Reads a whole pack and compares every file with its checksum. Under mpirun, "
          "the ranks share the work. The exit code is 1 if a file is damaged.",
      .options = {threads_option()},
      .positionals = {pack_positional()},
      .examples = {{"millrace store verify packs/", "compare all files with their checksums"},
                   {"mpirun -n 8 millrace store verify packs/", "the same, shared by eight ranks"}},
      .run = run_verify,
  };
}

Command extract_action() {
  return {
      .name = "store extract",
      .summary = "restore the files of a pack, or some of them",
      .description =
          "Restores files, modes, times and links into a new directory. GLOBs choose "
          "paths; * also matches /. Under mpirun, the ranks share the work.",
      .options = {required(
                      output_option(ValueKind::kDirectory, "where the files go: a new directory")),
                  threads_option()},
      .positionals = {pack_positional(),
                      {.name = "GLOB",
                       .help = "only these paths of the pack",
                       .required = false,
                       .repeatable = true}},
      .examples = {{"millrace store extract packs/ -o some/ 'train/n01*'",
                    "only some of the files"}},
      .run = run_extract,
  };
}

}  // namespace

Command store_command() {
  std::vector<Command> actions = {pack_action(), list_action(), verify_action(), extract_action()};
  for (const std::vector<Command>& others : {node_actions(), mount_actions()}) {
    actions.insert(actions.end(), others.begin(), others.end());
  }
  return {
      .name = "store",
      .summary = "serve a packed dataset from the node's own storage; pack, list, verify it",
      .description =
          "`pack` turns a dataset into a few large files. `run` starts a service that keeps them on "
          "the node's own storage, and runs a command that sees the dataset under a path. `up` and "
          "`down` do the same in steps, for job scripts.\n\n"
          "The files of the pack cannot be changed. What programs create below the path is in the "
          "directory --save under the same names, as ordinary files.",
      .actions = std::move(actions),
      .examples = {{"millrace store pack imagenet/ -o packs/ --broadcast 'val/**'",
                    "the validation set goes to every node"},
                   {"millrace store run --pack packs/ --at /data/imagenet -- python train.py",
                    "the program reads /data/imagenet from memory"}},
  };
}

}  // namespace millrace::cli
