// The verb `bench`: the I/O of a training job from a YAML file.
#include "bench/bench.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/system/clock.h"
#include "base/system/progress.h"
#include "base/system/subprocess.h"
#include "base/text/json.h"
#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "bench/generate/generate.h"
#include "bench/run/results_files.h"
#include "bench/run/run_log.h"
#include "bench/samples/page_cache.h"
#include "bench/samples/samples.h"
#include "bench/workload/catalog.h"
#include "bench/workload/datasize.h"
#include "bench/workload/keys.h"
#include "bench/workload/load.h"
#include "cli/jobs/rank_launch.h"
#include "cli/options/inputs.h"
#include "cli/real_loader.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

using bench::Layout;
using bench::Split;
using bench::Workload;

bool is_override(std::string_view word) {
  return word.find('=') != std::string_view::npos || word.starts_with('~');
}

Result<double> parse_factor(std::string_view text) {
  const auto value = Node(Node::Kind::kPlain, 1, std::string(text)).as_double();
  if (value.ok() && *value > 0) return *value;
  return fail(Errc::kInvalidArgument, "'{}' is not a number above 0", printable(text));
}

Status check_factor(std::string_view text) {
  RETURN_IF_ERROR(parse_factor(text));
  return {};
}

// Checks an action: it takes one workload, named or chosen by `workload=NAME`, and changes of its
// keys.
Status check_workload(const Arguments& arguments) {
  std::string_view workload;
  for (const std::string& word : arguments.positionals()) {
    if (is_override(word)) continue;
    if (!workload.empty()) {
      return fail(Errc::kInvalidArgument,
                  "unexpected argument '{}': the workload is '{}'; KEY=VALUE changes a key of it",
                  printable(word), printable(workload));
    }
    workload = word;
  }
  return {};
}

Result<Workload> workload_of(const Arguments& arguments) {
  bench::LoadOptions options;
  for (const std::string& word : arguments.positionals()) {
    if (is_override(word)) {
      options.overrides.push_back(word);
    } else {
      options.workload = word;
    }
  }
  options.config_dir = arguments.value("config-dir").value_or("");
  ASSIGN_OR_RETURN(options.scale, parse_factor(arguments.value("scale").value_or("1")));
  ASSIGN_OR_RETURN(Workload workload, bench::load_workload(options));
  if (arguments.has("generate")) workload.workflow.generate_data = true;
  if (arguments.has("verify")) workload.reader.verify = true;
  if (const auto loader = arguments.value("loader")) {
    workload.reader.data_loader = *bench::named<bench::DataLoader>(*loader);
  }
  if (arguments.value("cache") == "bypass") workload.reader.odirect = true;
  if (const auto folder = arguments.value("output")) workload.output.folder = *folder;
  for (const std::string& warning : workload.warnings) {
    fmt::print(stderr, "millrace: {}\n", warning);
  }
  return workload;
}

bool has_no_data(const Workload& workload) {
  return workload.dataset.format == bench::DatasetFormat::kSynthetic;
}

Result<int> run_list(const Arguments&, Output& output) {
  Table table({{""}, {"", Table::Align::kLeft, true}});
  for (const bench::CatalogEntry& entry : bench::list_workloads()) {
    table.add_row({entry.name, entry.summary});
  }
  output.print(table.render(output.terminal()));
  return kExitSuccess;
}

// The table at the end of docs/guide/bench.md.
Result<int> run_keys(const Arguments& arguments, Output& output) {
  JsonWriter json;
  json.begin_list();
  for (const bench::Key& key : bench::keys()) {
    const std::string value = bench::default_text(key);
    const std::span<const std::string_view> words = bench::choice_words(key);
    if (arguments.has("json")) {
      json.begin_object();
      json.field("key", key.name);
      json.field("default", value);
      json.field("meaning", key.meaning);
      json.key("words");
      json.begin_list(JsonLayout::kOneLine);
      for (const std::string_view word : words) json.value(word);
      json.end_list();
      json.end_object();
      continue;
    }
    std::string meaning(key.meaning);
    if (words.size() > 1)
      meaning += fmt::format(" One of {}.", join({words.begin(), words.end()}, ", "));
    output.print(fmt::format("{}{}{}\n", key.name, value.empty() ? "" : " = ", value));
    for (const std::string& line : wrap(meaning, 76)) output.print(fmt::format("    {}\n", line));
  }
  json.end_list();
  if (arguments.has("json")) output.print(std::move(json).finish());
  return kExitSuccess;
}

Status generate_dataset(const Workload& workload, comm::Comm& comm, const Arguments& arguments,
                        const bench::RunLog& log) {
  if (!workload.workflow.generate_data || has_no_data(workload)) return {};
  ASSIGN_OR_RETURN(const Layout layout, Layout::of(workload));
  const uint64_t bytes = layout.payload_bytes(Split::kTrain) + layout.payload_bytes(Split::kEval);
  bench::GenerateReport report;
  {
    Progress progress({.label = "generating", .total = bytes / comm.size(), .counts_bytes = true});
    bench::GenerateOptions options;
    options.thread_count = count_of(arguments, "threads", 0);
    uint64_t shown = 0;
    options.on_progress = [&](uint64_t, uint64_t written) {
      progress.add(written - shown);
      shown = written;
    };
    ASSIGN_OR_RETURN(report, bench::generate(workload, comm, options));
  }
  if (comm.speaks()) {
    const double speed =
        report.seconds > 0 ? static_cast<double>(report.bytes_written) / report.seconds : 0;
    const std::string done =
        fmt::format("generated {} ({} were complete), {} in {:.1f} s, {}",
                    counted(report.files_written, "file", "files"), report.files_kept,
                    format_bytes(report.bytes_written), report.seconds, format_bandwidth(speed));
    fmt::print(stderr, "{}\n", done);
    log.add(done);
    warn_of(report.notes);
    for (const std::string& note : report.notes) log.warn(note);
  }
  return {};
}

// The files of the rank: all ranks together drop or read each file once.
Status prepare_cache(const Workload& workload, const comm::Comm& comm, const std::string& cache) {
  if (cache != "drop" && cache != "warm") return {};
  ASSIGN_OR_RETURN(const Layout layout, Layout::of(workload));
  for (const Split split : {Split::kTrain, Split::kEval}) {
    const bench::FileList all = bench::files_of(layout, split);
    const uint32_t rank = comm::index_of(comm.rank());
    const bench::FileList mine{(all.count + comm.size() - 1 - rank) / comm.size(),
                               [&](uint64_t i) { return all.path(rank + i * comm.size()); }};
    RETURN_IF_ERROR(cache == "drop" ? bench::drop_cached(mine) : bench::warm_cache(mine));
  }
  return {};
}

// All ranks write to the folder that rank 0 has chosen.
Result<std::filesystem::path> output_folder(const Workload& workload, comm::Comm& comm) {
  std::string folder = workload.output.folder;
  if (folder.empty()) {
    std::string when = utc_text(wall_now().count());
    for (char& c : when) c = c == ' ' || c == ':' ? '-' : c;
    folder = fmt::format("millrace-bench/{}/{}", workload.name, when);
  }
  RETURN_IF_ERROR(comm.broadcast(folder, comm::kFirstRank));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail_os(error.value(), "cannot create the output folder").within(folder);
  const bool is_first = comm.rank() == comm::kFirstRank;
  RETURN_IF_ERROR(comm.agree(
      is_first ? bench::check_results_folder(folder, comm.size(), workload.output.log_file)
               : Status()));
  return std::filesystem::path(folder);
}

// The log of rank 0; that of the others goes nowhere.
Result<bench::RunLog> open_log(const Workload& workload, comm::Comm& comm,
                               const std::filesystem::path& folder) {
  if (comm.rank() != comm::kFirstRank || workload.output.log_file.empty()) return bench::RunLog();
  RETURN_IF_ERROR(bench::list_log(folder, workload.output.log_file));
  ASSIGN_OR_RETURN(bench::RunLog log, bench::RunLog::open(folder / workload.output.log_file));
  log.add(fmt::format("{}: {}, loader {}, {} files of {}", workload.name,
                      counted(comm.size(), "rank", "ranks"), name_of(workload.reader.data_loader),
                      workload.dataset.num_files_train, name_of(workload.dataset.format)));
  for (const std::string& warning : workload.warnings) log.warn(warning);
  return log;
}

bool removes_dataset(const Workload& workload) {
  return !workload.dataset.keep_files && workload.workflow.train && !has_no_data(workload);
}

// After the run, on rank 0. The barrier: no other rank reads any more.
Status remove_dataset(const Workload& workload, comm::Comm& comm, const bench::RunLog& log) {
  RETURN_IF_ERROR(comm.barrier());
  if (comm.rank() != comm::kFirstRank) return {};
  ASSIGN_OR_RETURN(const bench::RemovedDataset removed, bench::remove_dataset(workload));
  const std::string kept =
      removed.changed.empty()
          ? ""
          : fmt::format("; {} that changed since they were generated, for example {}, stay",
                        counted(removed.changed.size(), "file", "files"),
                        printable(removed.changed.front()));
  const std::string done =
      fmt::format("deleted {} of the dataset, because dataset.keep_files=false{}",
                  counted(removed.file_count, "file", "files"), kept);
  fmt::print(stderr, "{}\n", done);
  log.add(done);
  return {};
}

Result<bench::RankRun> train(const Workload& workload, comm::Comm& comm, const Arguments& arguments,
                             const bench::RunLog& log, std::chrono::nanoseconds started) {
  const bench::DatasetConfig& dataset = workload.dataset;
  const std::string cache = arguments.value("cache").value_or("keep");
  Progress progress({.label = "training",
                     .total = workload.train.epochs * dataset.num_files_train *
                              dataset.num_samples_per_file / comm.size()});
  const bool busy = arguments.value("compute") == "busy";
  const bench::TrainingOptions options{
      .compute = busy ? bench::ComputeMode::kBusy : bench::ComputeMode::kSleep,
      .on_step = [&](uint64_t samples) { progress.add(samples); },
      .prepare_cache = [&] { return prepare_cache(workload, comm, cache); },
      .log = &log,
      .started = workload.workflow.generate_data ? monotonic_now() : started};
  return bench::run_training(workload, comm, options);
}

// Printed before it is written: a full disk must not take the result of hours with it.
Status report_run(const Workload& workload, comm::Comm& comm, const Arguments& arguments,
                  Output& output, const std::filesystem::path& folder, const bench::RankRun& run,
                  const bench::RunFigures& figures) {
  const bool is_first = comm.rank() == comm::kFirstRank;
  if (is_first) {
    output.print(arguments.has("json") ? bench::figures_json(figures, workload)
                                       : bench::figures_text(figures, workload, output.terminal()));
  }
  RETURN_IF_ERROR(
      comm.agree(bench::write_rank_files(folder, comm::index_of(comm.rank()), run, workload)));
  RETURN_IF_ERROR(
      comm.agree(is_first ? bench::write_summary(folder, figures, workload) : Status()));
  if (is_first && !arguments.has("json")) {
    output.print(fmt::format("{:<18}{}\n", "results in", folder.string()));
  }
  return {};
}

Result<int> run_ranks(const Workload& workload, const Arguments& arguments, Output& output,
                      std::chrono::nanoseconds started) {
  return with_ranks([&](comm::Comm& comm) -> Result<int> {
    if (!workload.workflow.train && !workload.workflow.checkpoint) {
      RETURN_IF_ERROR(generate_dataset(workload, comm, arguments, bench::RunLog()));
      return kExitSuccess;
    }
    ASSIGN_OR_RETURN(const auto folder, output_folder(workload, comm));
    auto opened = open_log(workload, comm, folder);
    RETURN_IF_ERROR(comm.agree(opened.ok() ? Status() : Status(opened.error())));
    RETURN_IF_ERROR(generate_dataset(workload, comm, arguments, *opened));
    if (removes_dataset(workload)) RETURN_IF_ERROR(bench::check_removable(workload));
    ASSIGN_OR_RETURN(const bench::RankRun run, train(workload, comm, arguments, *opened, started));
    for (const std::string& note : run.notes) opened->warn(note);
    warn_of(run.notes);
    ASSIGN_OR_RETURN(const bench::RunFigures figures, bench::gather_figures(run, workload, comm));
    if (comm.rank() == comm::kFirstRank) opened->add(bench::figures_text(figures, workload, {}));
    RETURN_IF_ERROR(report_run(workload, comm, arguments, output, folder, run, figures));
    if (removes_dataset(workload)) RETURN_IF_ERROR(remove_dataset(workload, comm, *opened));
    const bool is_enough = !arguments.has("require-au") || comm.rank() != comm::kFirstRank ||
                           bench::meets_expectation(figures, workload);
    return is_enough ? kExitSuccess : kExitFailure;
  });
}

Result<double> au_with(const std::vector<std::string>& words, uint64_t accelerators,
                       const std::filesystem::path& folder) {
  std::vector<std::string> command = words;
  command.push_back(fmt::format("--output={}", folder.string()));
  ASSIGN_OR_RETURN(command, with_launcher(command, accelerators));
  ASSIGN_OR_RETURN(const auto result,
                   run_subprocess(command, {.timeout = std::chrono::hours(24),
                                            .environment = launcher_environment()}));
  if (result.exit_code != 0) {
    return fail(Errc::kIo, "the run with {} accelerators failed: {}", accelerators, result.output);
  }
  const std::filesystem::path path = folder / "millrace.json";
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(const Document document, parse_json(text, path.string()));
  const Node* au = document.root.find("au");
  if (au == nullptr) return fail(Errc::kCorrupt, "{}: has no 'au'", path.string());
  return au->as_double();
}

// An epoch must have some steps, of which the first does not count.
constexpr uint64_t kStepsMin = 5;

uint64_t steps_with(const Workload& workload, uint64_t accelerators) {
  const bench::DatasetConfig& dataset = workload.dataset;
  return dataset.num_files_train * dataset.num_samples_per_file /
         (workload.reader.batch_size * accelerators);
}

// Doubles the accelerators until the utilisation falls below the threshold, then halves the gap.
Result<int> find_max(const Workload& workload, const Arguments& arguments, Output& output) {
  std::vector<std::string> words = {"bench"};
  for (const std::string& word : arguments.positionals()) words.push_back(word);
  words.emplace_back("dataset.keep_files=true");  // the next run needs it
  for (const char* option : {"config-dir", "scale", "compute", "cache", "loader"}) {
    if (const auto value = arguments.value(option)) {
      words.push_back(fmt::format("--{}={}", option, *value));
    }
  }
  ASSIGN_OR_RETURN(const TemporaryDirectory folder, TemporaryDirectory::create());
  uint64_t good = 0;
  uint64_t bad = 0;
  double good_au = 0;
  for (uint64_t count = 1; bad == 0 || bad - good > 1;) {
    if (bad == 0 && steps_with(workload, count) < kStepsMin) break;
    ASSIGN_OR_RETURN(const double au, au_with(words, count, folder.path() / std::to_string(count)));
    fmt::print(stderr, "{}: {:.1f} %\n", counted(count, "accelerator", "accelerators"), au * 100);
    const bool enough = au >= workload.metric_au;
    if (enough) good_au = au;
    (enough ? good : bad) = count;
    count = bad == 0 ? good * 2 : good + (bad - good) / 2;
    if (good == 0 && bad > 0) break;
  }
  if (bad == 0) {
    fmt::print(stderr,
               "millrace: the dataset is too small for more: with {} an epoch has {} steps; see "
               "`millrace bench datasize`\n",
               counted(std::max<uint64_t>(good * 2, 1), "accelerator", "accelerators"),
               steps_with(workload, std::max<uint64_t>(good * 2, 1)));
  }
  output.print(arguments.has("json")
                   ? fmt::format("{{\"max_accelerators\": {}, \"au\": {}}}\n", good, good_au)
                   : fmt::format("{} at a utilisation of at least {:.0f} %\n",
                                 counted(good, "accelerator", "accelerators"),
                                 workload.metric_au * 100));
  return kExitSuccess;
}

Result<int> run_datasize(const Arguments& arguments, Output& output) {
  ASSIGN_OR_RETURN(const Workload workload, workload_of(arguments));
  bench::DataSizeQuestion question{.accelerator_count = count_of(arguments, "accelerators", 1),
                                   .host_count = count_of(arguments, "nodes", 1)};
  ASSIGN_OR_RETURN(question.host_memory_bytes, parse_bytes(*arguments.value("memory")));
  ASSIGN_OR_RETURN(const bench::DataSize size, bench::required_data_size(workload, question));
  if (!arguments.has("json")) {
    output.print(fmt::format("dataset.num_files_train={}\n{}, {}, because of {}\n", size.file_count,
                             counted(size.sample_count, "sample", "samples"),
                             format_bytes(size.size_bytes),
                             size.is_by_memory() ? "the memory: 5 times that of all hosts"
                                                 : "the steps: 500 in an epoch"));
    return kExitSuccess;
  }
  JsonWriter json;
  json.begin_object();
  json.field("num_files_train", size.file_count);
  json.field("files_by_memory", size.file_count_by_memory);
  json.field("files_by_steps", size.file_count_by_steps);
  json.field("samples", size.sample_count);
  json.field("bytes", size.size_bytes);
  json.end_object();
  output.print(std::move(json).finish());
  return kExitSuccess;
}

Result<int> run_bench(const Arguments& arguments, Output& output) {
  const auto started = monotonic_now();
  ASSIGN_OR_RETURN(const Workload workload, workload_of(arguments));
  if (arguments.has("show")) {
    output.print(bench::to_yaml(workload));
    return kExitSuccess;
  }
  if (arguments.has("real-loader")) {
    return run_real_loader(workload, arguments.has("json"), output);
  }
  if (arguments.has("require-au") && !workload.workflow.train && !workload.workflow.checkpoint) {
    return fail(Errc::kInvalidArgument, "--require-au needs a run, but workflow.train is false");
  }
  if (arguments.has("find-max-accelerators")) return find_max(workload, arguments, output);
  const uint64_t accelerators = count_of(arguments, "accelerators", 1);
  if (accelerators > 1 && !is_launched()) return run_again_under_launcher(accelerators);
  return run_ranks(workload, arguments, output, started);
}

std::vector<Positional> workload_positionals() {
  return {{.name = "WORKLOAD",
           .help = "a name of `millrace bench list`, or a YAML file",
           .kind = ValueKind::kFile},
          {.name = "KEY=VALUE",
           .help = "changes a key of the file",
           .required = false,
           .repeatable = true}};
}

std::vector<Option> workload_options() {
  return {directory_option("config-dir", "where workloads and their defaults are, as for DLIO"),
          {.name = "scale",
           .value = "FACTOR",
           .help = "shrink the dataset and the checkpoints: 0.01",
           .check = check_factor}};
}

Command list_action() {
  return {.name = "bench list",
          .summary = "list the workloads that are shipped",
          .description = "Lists the workloads that are shipped, and what each of them models.",
          .examples = {{"millrace bench list", "the names that `millrace bench` knows"}},
          .run = run_list};
}

Command keys_action() {
  return {.name = "bench keys",
          .summary = "list the keys of a workload",
          .description = "Lists the keys of a workload with their defaults and what they mean.",
          .options = {json_option()},
          .examples = {{"millrace bench keys", "what KEY=VALUE and a file can set"}},
          .run = run_keys};
}

Command datasize_action() {
  const std::vector<Option> own = {
      {.name = "accelerators",
       .value = "N",
       .help = "accelerators of the job (1)",
       .check = check_positive},
      {.name = "nodes", .value = "N", .help = "nodes of the job (1)", .check = check_positive},
      required(size_option("memory", "memory per host, for example 256GiB")),
      json_option()};
  return {.name = "bench datasize",
          .summary = "how many files MLPerf Storage's rule asks for",
          .description =
              "Prints how many files MLPerf Storage's rule asks for: five times the "
              "memory of all hosts, and at least 500 steps in an epoch.",
          .options = joined({workload_options(), own}),
          .positionals = workload_positionals(),
          .examples = {{"millrace bench datasize unet3d_h100 --accelerators 4 --memory 64GiB",
                        "the number of files for MLPerf Storage"}},
          .check = check_workload,
          .run = run_datasize};
}

std::vector<Option> bench_options() {
  const std::vector<Option> own = {
      {.name = "show", .help = "print the workload with all changes, and stop"},
      {.name = "generate", .help = "make the dataset first; complete files stay"},
      count_option("threads", "threads that generate (all CPUs)"),
      {.name = "accelerators",
       .value = "N",
       .help = "start N ranks with mpirun, one for each emulated accelerator (1)",
       .check = check_positive},
      {.name = "loader",
       .value = "NAME",
       .help = "loader whose access pattern to reproduce",
       .choices = {bench::kWords<bench::DataLoader>.begin(),
                   bench::kWords<bench::DataLoader>.end()}},
      {.name = "real-loader",
       .value = "NAME",
       .help = "read with the loader itself, in Python; needs the dataset",
       .choices = {"torch"},
       .alternatives = {"generate", "accelerators", "loader", "compute", "cache", "verify",
                        "require-au", "find-max-accelerators", "output"}},
      {.name = "compute",
       .value = "HOW",
       .help = "sleep, or keep a core busy, for the compute time (sleep)",
       .choices = {"sleep", "busy"}},
      {.name = "cache",
       .value = "HOW",
       .help = "what to do with the page cache before (keep)",
       .choices = {"keep", "drop", "warm", "bypass"}},
      {.name = "verify", .help = "compare each sample with what was generated"},
      {.name = "require-au", .help = "exit with 1 if the utilisation is below metric.au"},
      {.name = "find-max-accelerators",
       .help = "the most accelerators that this storage keeps busy; needs the dataset",
       .alternatives = {"generate", "accelerators", "verify", "require-au", "output"}},
      output_option(ValueKind::kDirectory, "where results go (millrace-bench/NAME/TIME)"),
      json_option()};
  return joined({workload_options(), own});
}

}  // namespace

Command bench_command() {
  return {
      .name = "bench",
      .summary = "the I/O of a training job from a YAML file, without the model",
      .description =
          "Generates the dataset of a workload, loads it as the job would, waits as long as the "
          "accelerator would compute, evaluates, writes checkpoints, and reports how busy the "
          "accelerator was.\n\n"
          "A workload is one of `millrace bench list`, or a file. Files of DLIO and MLPerf Storage "
          "work unchanged. KEY=VALUE changes a key of the file (train.epochs=1; "
          "++workload.train.epochs=1 too); `millrace bench keys` lists them. To make only the dataset: --generate "
          "workflow.train=false workflow.checkpoint=false.",
      .actions = {list_action(), keys_action(), datasize_action()},
      .options = bench_options(),
      .positionals = workload_positionals(),
      .examples = {{"millrace bench small --generate", "a run of a few seconds"},
                   {"millrace bench unet3d_h100 --scale 0.01 --generate",
                    "MLPerf's UNet3D, a hundredth of it"},
                   {"millrace bench resnet50_h100 reader.read_threads=4 --accelerators 8",
                    "eight ranks on this machine"},
                   {"millrace bench my.yaml ++workload.train.epochs=1 --loader pytorch",
                    "a DLIO file, read as PyTorch's workers do"}},
      .check = check_workload,
      .run = run_bench,
  };
}

}  // namespace millrace::cli
