// The verb `store`: packs a dataset for the storage of a job's nodes, and serves it there.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/json_writer.h"
#include "base/phrases.h"
#include "base/progress.h"
#include "base/spelling.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/inputs.h"
#include "cli/sample_options.h"
#include "cli/store_mount.h"
#include "cli/store_node.h"
#include "cli/store_tars.h"
#include "cli/verbs.h"
#include "store/extract.h"
#include "store/packer.h"
#include "store/verify.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

using store::Catalogue;
using store::PackReader;
using wire::CatalogueEntry;
using wire::EntryKind;

constexpr size_t kProblemsShown = 20;

std::vector<std::string> paths_of(const Arguments& arguments) {
  const std::vector<std::string>& all = arguments.positionals();
  return {all.begin() + 1, all.end()};
}

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

Result<int> run_pack_action(const Arguments& arguments, Output& output) {
  const std::vector<std::string> sources = paths_of(arguments);
  const std::string directory = arguments.value("output").value_or("");
  if (are_all(sources, ".tar")) return pack_tars(arguments, sources, directory, output);
  if (are_all(sources, ".pack")) {
    RETURN_IF_ERROR(store::rebuild_catalogue({sources.begin(), sources.end()}, directory));
    output.print(fmt::format("{}: the catalogue of {} is written\n", printable(directory),
                             counted(sources.size(), "partition", "partitions")));
    return kExitSuccess;
  }
  if (sources.size() != 1) {
    return fail(Errc::kInvalidArgument,
                "pack takes one directory, or several .tar or .pack files, but not {} other things",
                sources.size());
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
  return PackReader::open(arguments.positionals()[1]);
}

Result<int> run_list_action(const Arguments& arguments, Output& output) {
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
    output.print(fmt::format("{}: {}\n", printable(arguments.positionals()[1]),
                             counted(problems.size(), "problem", "problems")));
    return code;
  }
  output.print(fmt::format(
      "{}: {} of {} in {}, all checksums are right\n", printable(arguments.positionals()[1]),
      counted(catalogue.file_count(), "file", "files"), format_bytes(catalogue.content_bytes()),
      counted(catalogue.partition_count(), "partition", "partitions")));
  return code;
}

Result<int> run_verify_action(const Arguments& arguments, Output& output) {
  return with_ranks([&](comm::Comm& comm) { return verify_with(arguments, output, comm); });
}

Result<int> extract_with(const Arguments& arguments, Output& output, comm::Comm& comm) {
  const std::string directory = arguments.value("output").value_or("");
  ASSIGN_OR_RETURN(const PackReader reader, pack_of(arguments));
  const std::vector<std::string>& words = arguments.positionals();
  store::ExtractOptions options{.directory = directory,
                                .globs = {words.begin() + 2, words.end()},
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

Result<int> run_extract_action(const Arguments& arguments, Output& output) {
  return with_ranks([&](comm::Comm& comm) { return extract_with(arguments, output, comm); });
}

constexpr size_t kAnyCount = SIZE_MAX;

// What an action needs, besides what the parser checks.
struct Action {
  std::string_view name;
  size_t paths_min;
  size_t paths_max;
  std::string_view paths;  // what they are
  std::vector<std::string_view> options;
  Result<int> (*run)(const Arguments& arguments, Output& output);
};

const std::vector<Action>& actions() {
  constexpr std::string_view kPack = "the directory of a pack";
  static const std::vector<Action> all = {
      {"pack", 1, kAnyCount, "a directory, or .tar files", {"output"}, run_pack_action},
      {"list", 1, 1, kPack, {}, run_list_action},
      {"verify", 1, 1, kPack, {}, run_verify_action},
      {"extract", 1, kAnyCount, kPack, {"output"}, run_extract_action},
      {"run", 0, 0, "", {"pack", "at"}, run_run_action},
      {"up", 0, 0, "", {"pack", "at"}, run_up_action},
      {"status", 0, 0, "", {}, run_status_action},
      {"warm", 0, kAnyCount, "", {}, run_warm_action},
      {"flush", 0, 0, "", {}, run_flush_action},
      {"down", 0, 0, "", {}, run_down_action},
      {"mount", 1, 1, "where to mount", {}, run_mount_action},
      {"unmount", 1, 1, "where a pack is mounted", {}, run_unmount_action},
  };
  return all;
}

const Action& action_of(const Arguments& arguments) {
  const std::string& name = arguments.positionals().front();
  return *std::find_if(actions().begin(), actions().end(),
                       [&](const Action& each) { return each.name == name; });
}

std::string_view missing_option(std::string_view name) {
  if (name == "output") return "-o DIR is missing: where to write";
  if (name == "pack") return "--pack is missing: the directory of the pack";
  return "--at is missing: the path under which programs see the files";
}

std::vector<std::string> action_names() {
  std::vector<std::string> names;
  for (const Action& action : actions()) names.emplace_back(action.name);
  return names;
}

Status check_store(const Arguments& arguments) {
  const Action& action = action_of(arguments);
  const std::vector<std::string>& words = arguments.positionals();
  const size_t paths_max = arguments.has("order") ? 0 : action.paths_max;
  if (words.size() <= action.paths_min) {
    return fail(Errc::kInvalidArgument, "PATH is missing: {}", action.paths);
  }
  if (words.size() - 1 > paths_max) {
    return fail(Errc::kInvalidArgument, "{} takes no '{}'{}", action.name,
                printable(words[paths_max + 1]), arguments.has("order") ? " beside --order" : "");
  }
  if (action.name != "run" && !arguments.program().empty()) {
    return fail(Errc::kInvalidArgument, "only `run` takes a command after --");
  }
  if (action.name == "run" && arguments.program().empty()) {
    return fail(Errc::kInvalidArgument, "the program to run is missing; put it after --");
  }
  for (const std::string_view option : action.options) {
    if (!arguments.has(option)) return fail(Errc::kInvalidArgument, "{}", missing_option(option));
  }
  if (arguments.has("hosts") && arguments.has("hostfile")) {
    return fail(Errc::kInvalidArgument, "--hosts and --hostfile are alternatives; give one");
  }
  return {};
}

Result<int> run_store(const Arguments& arguments, Output& output) {
  return action_of(arguments).run(arguments, output);
}

std::vector<Option> store_options() {
  std::vector<Option> options = {
      {.name = "output",
       .letter = 'o',
       .value = "DIR",
       .help = "pack: the directory of the new pack; extract: where files go",
       .kind = ValueKind::kDirectory},
      {.name = "partitions",
       .value = "N",
       .help = "pack: number of partitions (one for each GiB)",
       .check = check_count},
      {.name = "codec",
       .value = "NAME",
       .help = "pack: how to compress; auto chooses for each file (auto)",
       .choices = {"auto", "zstd", "lz4", "none"}},
      {.name = "broadcast",
       .value = "GLOB",
       .help = "pack: files that every node gets, such as 'val/**'",
       .repeatable = true},
      {.name = "threads",
       .value = "N",
       .help = "threads that work (all CPUs)",
       .check = check_count},
      {.name = "long", .help = "list: mode, length, codec, partition and time too"},
      {.name = "json", .help = "list, status: print the result as JSON"}};
  for (const std::vector<Option>& others : {node_options(), mount_options()}) {
    options.insert(options.end(), others.begin(), others.end());
  }
  return options;
}

}  // namespace

Command store_command() {
  return {
      .name = "store",
      .summary = "serve a packed dataset from the node's own storage; pack, list, verify it",
      .description =
          "`pack` writes a directory as a pack: partitions with the files' bytes, and a catalogue "
          "of their names and places. Files that compress by less than 10 % are stored as they are. "
          "Under mpirun, the ranks divide the partitions. A pack appears complete or not at all; "
          "run again, an interrupted one continues. Existing packs are never replaced.\n\n"
          "Tar files (WebDataset) become a pack without being copied: `pack` then writes only a "
          "catalogue. Given the .pack files of a pack, it writes their catalogue again.\n\n"
          "`list`, `verify` and `extract` take the directory of a pack, or one of its .pack files. "
          "`verify` compares every file with its checksum. `extract` restores files, modes, times "
          "and links into a new directory; GLOBs choose paths, and * also matches /.\n\n"
          "`run` starts a service, runs the command with the files of the pack under the path --at, "
          "and takes all down; exit code and signals are those of the command. Files come to the "
          "node's own storage when they are first opened, and stay there. Without a service, or "
          "when the capacity is used up, files are read from --origin. `up` and `down` do the same "
          "in steps, for job scripts; `up` prints what to export, and its service ends with the "
          "session of the script. `warm` fetches files before they are needed. With --order, it tells "
          "the service what programs will read, and stays until they have: files are fetched in that "
          "order, and the one whose next read is furthest away makes room. Loaders of Millrace do "
          "so themselves. `status` shows what is there.\n\n"
          "The files of the pack cannot be changed. What programs create below the path is in the "
          "directory --save under the same names, as ordinary files.\n\n"
          "`mount` shows the files of --pack, or of a running store, in an existing directory, for "
          "static programs, which `run` cannot serve. It needs FUSE. `unmount` ends it.",
      .options = store_options(),
      .positionals = {{.name = "ACTION", .help = "what to do", .choices = action_names()},
                      {.name = "PATH",
                       .help = "pack: a directory, or .tar files; list, verify, extract: a pack, "
                               "then GLOBs; warm: GLOBs; mount, unmount: a directory",
                       .kind = ValueKind::kFile,
                       .required = false,
                       .repeatable = true}},
      .runs_program = true,
      .program_is_optional = true,
      .examples =
          {{"millrace store pack imagenet/ -o packs/ --partitions 64 --broadcast 'val/**'",
            "the validation set goes to every node"},
           {"mpirun -n 8 millrace store pack imagenet/ -o packs/ --codec none",
            "eight ranks, no compression"},
           {"millrace store pack shards/*.tar -o packs/",
            "a catalogue of tar files, which are not copied"},
           {"millrace store list packs/ --long", "what is in it"},
           {"millrace store verify packs/", "compare all files with their checksums"},
           {"mpirun -n 8 millrace store verify packs/", "the same, shared by eight ranks"},
           {"millrace store extract packs/ -o some/ 'train/n01*'", "only some of the files"},
           {"millrace store run --pack packs/ --at /data/imagenet -- python train.py",
            "the program reads /data/imagenet from memory"},
           {"eval \"$(millrace store up --pack packs/ --at /data --local /scratch)\"",
            "in a job script; the files are on the node's disk"},
           {"millrace store run --pack packs/ --at /data --hosts n1,n2 -- mpirun -n 8 ./train",
            "two nodes, each with half of the partitions"},
           {"millrace store warm 'val/**'", "fetch the validation set now"},
           {"millrace store warm --order epochs.txt &",
            "what train.py will read, for a small disk"},
           {"millrace store flush --wait", "return when all checkpoints are durable"}},
      .check = check_store,
      .run = run_store,
  };
}

}  // namespace millrace::cli
