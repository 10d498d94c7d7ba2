#include "bench/run/results.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"

namespace millrace::bench {
namespace {

double seconds_of(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

// What a rank sends to rank 0, as bytes.
class FigureWriter {
 public:
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof(T));
  }
  void put_text(std::string_view text) {
    put(static_cast<uint64_t>(text.size()));
    const ByteView bytes = bytes_of(text);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void put(const QuantileSketch& sketch) { sketch.save(out_); }
  void put(const std::vector<CheckpointResult>& results) {
    put(static_cast<uint64_t>(results.size()));
    for (const CheckpointResult& one : results) {
      put(one.size_bytes), put(one.file_count), put(one.fsync_count), put(one.cached_bytes);
      put(static_cast<double>(one.duration.count()) * 1e-9);
    }
  }
  const std::vector<std::byte>& bytes() const { return out_; }

 private:
  std::vector<std::byte> out_;
};

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::vector<std::byte> encode(const RankRun& run, const Workload& workload) {
  FigureWriter out;
  out.put_text(host_name());
  out.put(static_cast<uint64_t>(run.passes.size()));
  QuantileSketch waits;
  for (const Pass& pass : run.passes) {
    out.put(figures_of(pass, workload));
    for (const Step& step : pass.steps) waits.add(step.wait_ns);
  }
  out.put(waits);
  out.put(run.sample_latency_ns);
  out.put(run.saves);
  out.put(run.loads);
  out.put(run.checked_samples);
  out.put(run.check_ns);
  out.put(run.bad_samples);
  out.put_text(run.first_bad_sample);
  out.put(static_cast<double>(run.setup.count()) * 1e-9);
  out.put(run.cached_share);
  return out.bytes();
}

Result<std::string> read_text(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint64_t size, in.read<uint64_t>());
  ASSIGN_OR_RETURN(const std::string_view text, in.take_text(size));
  return std::string(text);
}

Status add_checkpoints(ByteReader& in, CheckpointFigures& sum) {
  ASSIGN_OR_RETURN(const uint64_t count, in.read<uint64_t>());
  sum.count = std::max(sum.count, count);
  sum.seconds.resize(sum.count);
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t bytes, in.read<uint64_t>());
    ASSIGN_OR_RETURN(const uint64_t files, in.read<uint64_t>());
    ASSIGN_OR_RETURN(const uint64_t fsyncs, in.read<uint64_t>());
    ASSIGN_OR_RETURN(const uint64_t cached_bytes, in.read<uint64_t>());
    ASSIGN_OR_RETURN(const double seconds, in.read<double>());
    sum.bytes += bytes, sum.files += files, sum.fsyncs += fsyncs;
    sum.cached_bytes += cached_bytes;
    sum.seconds[i] = std::max(sum.seconds[i], seconds);
  }
  return {};
}

// Adds what one rank has sent. Sums; add_all() divides the means.
Status add_rank(ByteReader in, RunFigures& run, std::set<std::string>& hosts) {
  ASSIGN_OR_RETURN(std::string host, read_text(in));
  hosts.insert(std::move(host));
  ASSIGN_OR_RETURN(const uint64_t pass_count, in.read<uint64_t>());
  std::vector<PassFigures>& passes = run.by_rank.emplace_back();
  for (uint64_t i = 0; i < pass_count; ++i) {
    ASSIGN_OR_RETURN(const PassFigures figures, in.read<PassFigures>());
    passes.push_back(figures);
  }
  ASSIGN_OR_RETURN(const QuantileSketch waits, QuantileSketch::load(in));
  run.batch_wait_ns.merge(waits);
  ASSIGN_OR_RETURN(const QuantileSketch latencies, QuantileSketch::load(in));
  run.sample_latency_ns.merge(latencies);
  RETURN_IF_ERROR(add_checkpoints(in, run.saves));
  RETURN_IF_ERROR(add_checkpoints(in, run.loads));
  ASSIGN_OR_RETURN(const uint64_t checked_samples, in.read<uint64_t>());
  ASSIGN_OR_RETURN(const uint64_t check_ns, in.read<uint64_t>());
  run.checked_samples += checked_samples;
  run.check_seconds += seconds_of(check_ns);
  ASSIGN_OR_RETURN(const uint64_t bad_samples, in.read<uint64_t>());
  run.bad_samples += bad_samples;
  ASSIGN_OR_RETURN(std::string first_bad, read_text(in));
  if (run.first_bad_sample.empty()) run.first_bad_sample = std::move(first_bad);
  ASSIGN_OR_RETURN(const double setup, in.read<double>());
  run.setup_seconds = std::max(run.setup_seconds, setup);
  ASSIGN_OR_RETURN(const double cached, in.read<double>());
  run.cached_share += cached;
  return {};
}

PassFigures combine(std::span<const std::vector<PassFigures>> by_rank, size_t pass) {
  PassFigures all = by_rank[0][pass];
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    const PassFigures& one = by_rank[rank][pass];
    all.steps = std::max(all.steps, one.steps);
    all.samples += one.samples, all.bytes_read += one.bytes_read, all.reads += one.reads;
    all.seconds = std::max(all.seconds, one.seconds);
    all.checkpoint_seconds = std::max(all.checkpoint_seconds, one.checkpoint_seconds);
    all.au += one.au, all.au_dlio += one.au_dlio;
    all.dlio_samples_per_second += one.dlio_samples_per_second;
    all.first_batch_seconds = std::max(all.first_batch_seconds, one.first_batch_seconds);
    all.wait_seconds += one.wait_seconds, all.compute_seconds += one.compute_seconds;
    all.harness_seconds += one.harness_seconds;
  }
  const double ranks = static_cast<double>(by_rank.size());
  for (double* mean :
       {&all.au, &all.au_dlio, &all.wait_seconds, &all.compute_seconds, &all.harness_seconds}) {
    *mean /= ranks;
  }
  return all;
}

// The steps that count, of `count` steps of a block. DLIO counts the last ones, which do not, from
// the end of the epoch, so that they are only left out in an epoch of one block.
struct Kept {
  size_t begin = 0;
  size_t end = 0;
};
Kept kept_of(size_t count, size_t epoch_count, const OutputConfig& output) {
  const size_t begin = output.exclude_start_steps;
  const size_t end =
      std::min(count, epoch_count - std::min<size_t>(output.exclude_end_steps, epoch_count));
  if (begin < end) return {.begin = begin, .end = end};
  return {.begin = 0, .end = count};  // too few to leave any out
}

struct DlioFigures {
  double au = 0;
  double samples_per_second = 0;
};

// Of a block of training, or of an evaluation.
DlioFigures dlio_figures_of(std::span<const Step> steps, uint64_t duration_ns, const Pass& pass,
                            const Workload& workload) {
  const Kept kept = kept_of(steps.size(), pass.steps.size(), workload.output);
  uint64_t computed_ns = 0, excluded_ns = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool counts = kept.begin <= i && i < kept.end;
    if (counts) computed_ns += steps[i].compute_ns;
    if (!counts) excluded_ns += steps[i].wait_ns + steps[i].compute_ns;
  }
  DlioFigures figures;
  if (duration_ns <= excluded_ns) return figures;
  const double counted_seconds = seconds_of(duration_ns - excluded_ns);
  figures.au = seconds_of(computed_ns) / counted_seconds;
  const auto count = static_cast<double>(steps.size());
  if (pass.split == Split::kEval) {
    figures.samples_per_second =
        count * static_cast<double>(workload.reader.batch_size_eval) / seconds_of(duration_ns);
  } else if (count > 2) {
    // The constant 2 is DLIO's own.
    figures.samples_per_second =
        (count - 2) * static_cast<double>(workload.reader.batch_size) / counted_seconds;
  }
  return figures;
}

void add_dlio_figures(const Pass& pass, const Workload& workload, PassFigures& figures) {
  const Block whole{.steps = pass.steps.size(), .duration_ns = pass.duration_ns};
  const std::span<const Block> blocks =
      pass.blocks.empty() ? std::span(&whole, 1) : std::span(pass.blocks);
  size_t first = 0;
  for (const Block& block : blocks) {
    const auto steps = std::span(pass.steps).subspan(first, static_cast<size_t>(block.steps));
    const DlioFigures each = dlio_figures_of(steps, block.duration_ns, pass, workload);
    const double weight = pass.steps.empty() ? 0
                                             : static_cast<double>(block.steps) /
                                                   static_cast<double>(pass.steps.size());
    figures.au_dlio += each.au * weight;
    figures.dlio_samples_per_second += each.samples_per_second * weight;
    first += steps.size();
  }
}

}  // namespace

PassFigures figures_of(const Pass& pass, const Workload& workload) {
  PassFigures figures{.split = pass.split,
                      .epoch = pass.epoch,
                      .steps = pass.steps.size(),
                      .samples = pass.samples,
                      .bytes_read = pass.bytes_read,
                      .reads = pass.reads,
                      .seconds = seconds_of(pass.duration_ns),
                      .checkpoint_seconds = seconds_of(pass.checkpoint_ns)};
  for (const Step& step : pass.steps) {
    figures.wait_seconds += seconds_of(step.wait_ns);
    figures.compute_seconds += seconds_of(step.compute_ns);
    figures.harness_seconds +=
        seconds_of(step.whole_ns - std::min(step.whole_ns, step.wait_ns + step.compute_ns));
  }
  if (!pass.steps.empty()) figures.first_batch_seconds = seconds_of(pass.steps[0].wait_ns);
  uint64_t whole_ns = 0, nominal_ns = 0;
  const Kept kept = kept_of(pass.steps.size(), pass.steps.size(), workload.output);
  for (size_t i = kept.begin; i < kept.end; ++i) {
    whole_ns += pass.steps[i].whole_ns;
    nominal_ns += pass.steps[i].nominal_ns;
  }
  if (whole_ns > 0) figures.au = static_cast<double>(nominal_ns) / static_cast<double>(whole_ns);
  add_dlio_figures(pass, workload, figures);
  return figures;
}

Result<RunFigures> gather_figures(const RankRun& mine, const Workload& workload, comm::Comm& comm) {
  const std::vector<std::byte> encoded = encode(mine, workload);
  ASSIGN_OR_RETURN(const std::vector<std::string> all, comm.gather(encoded, comm::kFirstRank));
  RunFigures run;
  if (comm.rank() != comm::kFirstRank) return run;
  std::set<std::string> hosts;
  for (const std::string& one : all)
    RETURN_IF_ERROR(add_rank(ByteReader(bytes_of(one)), run, hosts));
  run.rank_count = comm.size();
  run.host_count = static_cast<uint32_t>(hosts.size());
  run.cached_share /= comm.size();
  size_t pass_count = run.by_rank[0].size();
  for (const auto& passes : run.by_rank) pass_count = std::min(pass_count, passes.size());
  for (size_t pass = 0; pass < pass_count; ++pass) {
    run.passes.push_back(combine(run.by_rank, pass));
  }
  return run;
}

double mean_au(const RunFigures& run) {
  double sum = 0;
  uint64_t count = 0;
  for (const PassFigures& pass : run.passes) {
    if (pass.split != Split::kTrain) continue;
    sum += pass.au;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

bool meets_expectation(const RunFigures& run, const Workload& workload) {
  const bool trained = std::ranges::any_of(
      run.passes, [](const PassFigures& pass) { return pass.split == Split::kTrain; });
  return !trained || mean_au(run) >= workload.metric_au;
}

}  // namespace millrace::bench
