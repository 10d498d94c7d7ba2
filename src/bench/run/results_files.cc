#include "bench/run/results_files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/io/atomic_file.h"
#include "base/system/cpus.h"
#include "base/system/memory.h"
#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "bench/workload/own_files.h"

namespace millrace::bench {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;

double seconds_of(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double deviation(std::span<const double> values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
}

std::vector<double> of_passes(const RunFigures& run, Split split,
                              const std::function<double(const PassFigures&)>& figure) {
  std::vector<double> values;
  for (const PassFigures& pass : run.passes) {
    if (pass.split == split) values.push_back(figure(pass));
  }
  return values;
}

void list(JsonWriter& json, std::string_view name, std::span<const double> values) {
  json.key(name);
  json.begin_list(JsonLayout::kOneLine);
  for (const double value : values) json.value(value);
  json.end_list();
}

// The figures of DLIO for "train" or "eval".
void dlio_metrics(JsonWriter& json, const RunFigures& run, Split split, const Workload& workload) {
  const std::string name = split == Split::kTrain ? "train" : "eval";
  const auto au = of_passes(run, split, [](const PassFigures& pass) { return pass.au_dlio * 100; });
  if (au.empty()) return;
  list(json, name + "_au_percentage", au);
  json.field(name + "_au_mean_percentage", mean(au));
  json.field(name + "_au_stdev_percentage", deviation(au));
  json.field(name + "_au_meet_expectation",
             mean(au) >= workload.metric_au * 100 ? "success" : "fail");
  const auto speed =
      of_passes(run, split, [](const PassFigures& pass) { return pass.dlio_samples_per_second; });
  list(json, name + "_throughput_samples_per_second", speed);
  json.field(name + "_throughput_mean_samples_per_second", mean(speed));
  json.field(name + "_throughput_stdev_samples_per_second", deviation(speed));
  // Not what was read, which is in millrace.json: a reader of one sample of a file may read all of
  // it.
  const double record_mib = static_cast<double>(workload.dataset.record_length_bytes) / kMiB;
  json.field(name + "_io_mean_MB_per_second", mean(speed) * record_mib);
  json.field(name + "_io_stdev_MB_per_second", deviation(speed) * record_mib);
}

void dlio_checkpoints(JsonWriter& json, std::string_view name, const CheckpointFigures& figures) {
  if (figures.count == 0) return;
  const double each = static_cast<double>(figures.bytes) / static_cast<double>(figures.count);
  std::vector<double> speeds;
  for (const double seconds : figures.seconds) {
    speeds.push_back(seconds > 0 ? each / kGiB / seconds : 0);
  }
  json.field(fmt::format("{}_checkpoint_io_mean_GB_per_second", name), mean(speeds));
  json.field(fmt::format("{}_checkpoint_io_stdev_GB_per_second", name), deviation(speeds));
  json.field(fmt::format("{}_checkpoint_duration_mean_seconds", name), mean(figures.seconds));
  json.field(fmt::format("{}_checkpoint_duration_stdev_seconds", name), deviation(figures.seconds));
}

void dlio_checkpoint_size(JsonWriter& json, const RunFigures& run) {
  const CheckpointFigures& figures = run.saves.count > 0 ? run.saves : run.loads;
  if (figures.count == 0) return;
  json.field("checkpoint_size_GB",
             static_cast<double>(figures.bytes) / static_cast<double>(figures.count) / kGiB);
}

std::string dlio_summary(const RunFigures& run, const Workload& workload) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const DatasetConfig& dataset = workload.dataset;
  const double memory = static_cast<double>(memory_total_bytes().value_or(0)) / kGiB;
  const double data = dataset.record_length_bytes *
                      static_cast<double>(dataset.num_files_train * dataset.num_samples_per_file) /
                      kGiB / run.host_count;
  JsonWriter json;
  json.begin_object();
  json.field("num_accelerators", run.rank_count);
  json.field("num_hosts", run.host_count);
  json.field("hostname", host);
  json.field("num_files_train", dataset.num_files_train);
  json.field("num_files_eval", dataset.num_files_eval);
  json.field("num_samples_per_file", dataset.num_samples_per_file);
  json.field("host_cpu_count", usable_cpu_count());
  json.field("host_memory_GB", memory);
  json.field("data_size_per_host_GB", data);
  json.field("potential_caching", data <= memory);
  json.field("epochs", workload.train.epochs);
  json.key("metric");
  json.begin_object();
  dlio_metrics(json, run, Split::kTrain, workload);
  dlio_metrics(json, run, Split::kEval, workload);
  dlio_checkpoints(json, "save", run.saves);
  dlio_checkpoints(json, "load", run.loads);
  dlio_checkpoint_size(json, run);
  json.end_object();
  json.end_object();
  return std::move(json).finish();
}

void quantiles(JsonWriter& json, std::string_view name, const QuantileSketch& sketch) {
  json.key(name);
  json.begin_object(JsonLayout::kOneLine);
  json.field("count", sketch.count());
  json.field("p50_us", static_cast<double>(sketch.quantile(0.5)) / 1000);
  json.field("p90_us", static_cast<double>(sketch.quantile(0.9)) / 1000);
  json.field("p99_us", static_cast<double>(sketch.quantile(0.99)) / 1000);
  json.field("max_us", static_cast<double>(sketch.max()) / 1000);
  json.end_object();
}

void pass_json(JsonWriter& json, const PassFigures& pass) {
  json.begin_object();
  json.field("kind", pass.split == Split::kTrain ? "train" : "evaluation");
  json.field("epoch", pass.epoch);
  json.field("steps", pass.steps);
  json.field("samples", pass.samples);
  json.field("seconds", pass.seconds);
  json.field("checkpoint_seconds", pass.checkpoint_seconds);
  json.field("au", pass.au);
  json.field("au_dlio", pass.au_dlio);
  json.field("samples_per_second", pass.samples_per_second());
  json.field("bytes_read", pass.bytes_read);
  json.field("reads", pass.reads);
  json.field("MB_per_second", pass.bytes_per_second() / 1e6);
  json.field("MiB_per_second", pass.bytes_per_second() / kMiB);
  json.field("first_batch_seconds", pass.first_batch_seconds);
  json.field("wait_seconds", pass.wait_seconds);
  json.field("compute_seconds", pass.compute_seconds);
  const double steps = static_cast<double>(std::max<uint64_t>(pass.steps, 1));
  json.field("harness_us_per_step", pass.harness_seconds * 1e6 / steps);
  json.end_object();
}

void checkpoints_json(JsonWriter& json, std::string_view name, const CheckpointFigures& figures) {
  json.key(name);
  json.begin_object();
  json.field("count", figures.count);
  json.field("bytes", figures.bytes);
  json.field("files", figures.files);
  json.field("fsyncs", figures.fsyncs);
  json.field("cached_bytes", figures.cached_bytes);
  list(json, "seconds", figures.seconds);
  json.end_object();
}

std::string rank_output(const RankRun& run) {
  JsonWriter json;
  json.begin_object();
  for (const Pass& pass : run.passes) {
    json.key(fmt::format("{}{}", pass.split == Split::kTrain ? "" : "eval_", pass.epoch));
    json.begin_object();
    const auto steps = [&](std::string_view name, const auto& time) {
      json.key(name);
      json.begin_list(JsonLayout::kOneLine);
      for (const Step& step : pass.steps) json.value(seconds_of(time(step)));
      json.end_list();
    };
    steps("load", [](const Step& step) { return step.wait_ns; });
    steps("proc", [](const Step& step) { return step.wait_ns + step.compute_ns; });
    steps("compute", [](const Step& step) { return step.compute_ns; });
    json.end_object();
  }
  json.end_object();
  return std::move(json).finish();
}

std::string rank_epochs(const RankRun& run, const Workload& workload) {
  JsonWriter json;
  json.begin_object();
  for (const Pass& pass : run.passes) {
    const PassFigures figures = figures_of(pass, workload);
    json.key(fmt::format("{}{}", pass.split == Split::kTrain ? "" : "eval_", pass.epoch));
    json.begin_object();
    json.field("start", utc_text(pass.wall_begin.count()));
    json.field("end", utc_text(pass.wall_end.count()));
    json.field("duration", seconds_of(pass.duration_ns));
    json.field("au", figures.au_dlio * 100);
    json.field("throughput", figures.dlio_samples_per_second);
    for (size_t i = 0; i < pass.blocks.size() && pass.split == Split::kTrain; ++i) {
      json.key(fmt::format("block{}", i + 1));
      json.begin_object(JsonLayout::kOneLine);
      json.field("steps", pass.blocks[i].steps);
      json.field("duration", seconds_of(pass.blocks[i].duration_ns));
      json.end_object();
    }
    json.end_object();
  }
  json.end_object();
  return std::move(json).finish();
}

Status write(const std::filesystem::path& path, const std::string& text) {
  return write_file_atomically(path, bytes_of(text));
}

std::string steps_name(uint32_t rank) { return fmt::format("{}_output.json", rank); }
std::string epochs_name(uint32_t rank) { return fmt::format("{}_per_epoch_stats.json", rank); }

std::vector<std::string> result_names(uint32_t rank_count) {
  std::vector<std::string> names = {"summary.json", "millrace.json"};
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    names.push_back(steps_name(rank));
    names.push_back(epochs_name(rank));
  }
  return names;
}

// The lists of own files do not follow a link; the path of the folder may be one.
std::filesystem::path real_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(folder, error);
  return error ? folder : real;
}

// Writes the list. The log grows after that.
Status list_files(const std::filesystem::path& folder, std::vector<std::string> names,
                  const std::string& log_file) {
  std::erase(names, log_file);
  ASSIGN_OR_RETURN(std::vector<OwnFile> files, look_at_files(folder, names));
  if (!log_file.empty()) files.push_back({.name = log_file});
  return write_own_files(folder, own_files_text(files));
}

// Those of earlier runs with more ranks stay in the list.
Status list_results(const std::filesystem::path& folder, uint32_t rank_count,
                    const std::string& log_file) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, find_own(folder));
  for (std::string& name : result_names(rank_count)) {
    // Ranks on other nodes may have written to folders of their own.
    const bool is_here = modified_ns_of(folder / name).has_value();
    if (is_here && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return list_files(folder, std::move(names), log_file);
}

std::string latency_text(const QuantileSketch& sketch) {
  const auto at = [&](double q) {
    return format_duration(std::chrono::nanoseconds(sketch.quantile(q)));
  };
  return fmt::format("median {}, 90 % {}, 99 % {}, longest {}", at(0.5), at(0.9), at(0.99), at(1));
}

void add_rows(Table& table, const RunFigures& run) {
  for (const PassFigures& pass : run.passes) {
    table.add_row(
        {pass.split == Split::kTrain ? fmt::format("{}", pass.epoch)
                                     : fmt::format("{} eval", pass.epoch),
         format_exact(pass.steps), fmt::format("{:.1f} %", pass.au * 100),
         fmt::format("{:.1f} %", pass.au_dlio * 100), format_count(pass.samples_per_second()),
         fmt::format("{:.1f}", pass.bytes_per_second() / 1e6),
         fmt::format("{:.1f}", pass.bytes_per_second() / kMiB),
         format_duration(
             std::chrono::nanoseconds(static_cast<int64_t>(pass.first_batch_seconds * 1e9))),
         fmt::format("{:.1f} s", pass.seconds)});
  }
}

std::string checkpoint_text(std::string_view what, const CheckpointFigures& figures, bool is_load) {
  if (figures.count == 0) return {};
  double seconds = 0;
  for (const double one : figures.seconds) seconds += one;
  const std::string how =
      is_load ? fmt::format("{:.0f} % of it in the page cache",
                            figures.bytes == 0 ? 0
                                               : static_cast<double>(figures.cached_bytes) * 100 /
                                                     static_cast<double>(figures.bytes))
              : fmt::format("{} fsync", figures.fsyncs);
  return fmt::format(
      "{:<18}{} of {} in {}, {}, {}\n", what, counted(figures.count, "time", "times"),
      format_bytes(figures.bytes / figures.count),
      counted(figures.files / figures.count, "file", "files"),
      format_bandwidth(seconds > 0 ? static_cast<double>(figures.bytes) / seconds : 0), how);
}

}  // namespace

Status check_results_folder(const std::filesystem::path& folder, uint32_t rank_count,
                            const std::string& log_file) {
  ASSIGN_OR_RETURN(const std::vector<std::string> foreign, find_foreign(real_folder(folder)));
  std::vector<std::string> names = result_names(rank_count);
  if (!log_file.empty()) names.push_back(log_file);
  for (const std::string& name : names) {
    if (!std::ranges::binary_search(foreign, name)) continue;
    return fail(Errc::kAlreadyExists,
                "{}: millrace did not write it, or it changed since; remove it, or choose another "
                "folder (--output)",
                printable((folder / name).string()));
  }
  return {};
}

Status list_log(const std::filesystem::path& folder, const std::string& log_file) {
  const std::filesystem::path real = real_folder(folder);
  ASSIGN_OR_RETURN(std::vector<std::string> names, find_own(real));
  return list_files(real, std::move(names), log_file);
}

Status write_rank_files(const std::filesystem::path& folder, uint32_t rank, const RankRun& run,
                        const Workload& workload) {
  RETURN_IF_ERROR(write(folder / steps_name(rank), rank_output(run)));
  return write(folder / epochs_name(rank), rank_epochs(run, workload));
}

Status write_summary(const std::filesystem::path& folder, const RunFigures& run,
                     const Workload& workload) {
  RETURN_IF_ERROR(write(folder / "summary.json", dlio_summary(run, workload)));
  RETURN_IF_ERROR(write(folder / "millrace.json", figures_json(run, workload)));
  return list_results(real_folder(folder), run.rank_count, workload.output.log_file);
}

std::string figures_json(const RunFigures& run, const Workload& workload) {
  JsonWriter json;
  json.begin_object();
  json.field("workload", workload.name);
  json.field("ranks", run.rank_count);
  json.field("hosts", run.host_count);
  json.field("data_loader", name_of(workload.reader.data_loader));
  json.field("au", mean_au(run));
  json.field("au_expected", workload.metric_au);
  json.field("au_meets_expectation", meets_expectation(run, workload));
  json.field("setup_seconds", run.setup_seconds);
  json.field("cached_share", run.cached_share);
  json.field("check_us_per_sample", run.check_us_per_sample());
  json.field("bad_samples", run.bad_samples);
  quantiles(json, "sample_latency", run.sample_latency_ns);
  quantiles(json, "batch_wait", run.batch_wait_ns);
  json.key("passes");
  json.begin_list();
  for (const PassFigures& pass : run.passes) pass_json(json, pass);
  json.end_list();
  json.key("ranks_passes");
  json.begin_list();
  for (const auto& passes : run.by_rank) {
    json.begin_list();
    for (const PassFigures& pass : passes) pass_json(json, pass);
    json.end_list();
  }
  json.end_list();
  checkpoints_json(json, "checkpoint_saves", run.saves);
  checkpoints_json(json, "checkpoint_loads", run.loads);
  json.end_object();
  return std::move(json).finish();
}

std::string figures_text(const RunFigures& run, const Workload& workload,
                         const Terminal& terminal) {
  std::string text =
      fmt::format("{}: {} {}, loader {}\n\n", workload.name, run.rank_count,
                  run.rank_count == 1 ? "rank" : "ranks", name_of(workload.reader.data_loader));
  if (!run.passes.empty()) {
    using enum Table::Align;
    Table table({{"epoch"},
                 {"steps", kRight},
                 {"utilisation", kRight},
                 {"as DLIO", kRight},
                 {"samples/s", kRight},
                 {"MB/s", kRight},
                 {"MiB/s", kRight},
                 {"first batch", kRight},
                 {"time", kRight}});
    add_rows(table, run);
    text += table.render(terminal) + "\n";
    uint64_t steps = 0;
    double harness = 0;
    for (const PassFigures& pass : run.passes) steps += pass.steps, harness += pass.harness_seconds;
    if (run.sample_latency_ns.count() > 0) {
      text += fmt::format("{:<18}{}\n", "sample latency", latency_text(run.sample_latency_ns));
    }
    text += fmt::format("{:<18}{}\n", "wait for a batch", latency_text(run.batch_wait_ns));
    text += fmt::format("{:<18}{:.1f} us a step of the benchmark itself\n", "own cost",
                        steps == 0 ? 0 : harness * 1e6 / static_cast<double>(steps));
    if (run.checked_samples > 0) {
      text += fmt::format("{:<18}{:.1f} us a sample: length, structure, checksums\n", "checks",
                          run.check_us_per_sample());
    }
    text += fmt::format("{:<18}held {:.0f} % of the training files before the first step\n",
                        "page cache", run.cached_share * 100);
    // Rounded down: 89.96 % is not 90 %.
    text += fmt::format("{:<18}{:.1f} %, expected at least {:g} %: {}\n", "utilisation",
                        std::floor(mean_au(run) * 1000 + 1e-9) / 10, workload.metric_au * 100,
                        meets_expectation(run, workload) ? "pass" : "fail");
  }
  text += fmt::format("{:<18}{:.3f} s until the first epoch\n", "start", run.setup_seconds);
  text += checkpoint_text("checkpoints", run.saves, /*is_load=*/false);
  text += checkpoint_text("read back", run.loads, /*is_load=*/true);
  if (run.bad_samples > 0) {
    text += fmt::format("{:<18}{} left out; the first: {}\n", "bad samples", run.bad_samples,
                        run.first_bad_sample);
  }
  return text;
}

}  // namespace millrace::bench
