#include "model/fidelity.h"

#include <algorithm>
#include <cmath>

#include "model/counts.h"
#include "model/step_times.h"

namespace millrace::model {
namespace {

using analyze::Profile;

constexpr double kCloseShare = 0.1;
constexpr double kClosePoints = 0.05;

double ratio_of(double a, double b) { return b == 0 ? 0 : a / b; }

// The numbers of one job that are compared.
class Figures {
 public:
  explicit Figures(const Profile& profile)
      : profile_(profile), counts_(counts_of(profile)), times_(step_times_of(profile)) {
    for (const analyze::GroupStats& kind : profile.kinds) {
      if (kind.name == "data") data_ = kind.io;
    }
  }

  const Profile& profile() const { return profile_; }
  const Counts& counts() const { return counts_; }

  // For each step of the training, including what evaluations read.
  double bytes_read() const { return per(profile_.job.dataset_bytes_read, counts_.steps_all); }
  double opens() const { return per(data_.opens, counts_.steps_all); }
  double reads() const {
    const analyze::AccessCounts& reads = profile_.data_reads.counts;
    return per(reads.count - std::min(reads.count, reads.at_end), counts_.steps_all);
  }

  double read_size(double share) const { return quantile_of(profile_.data_reads.sizes, share); }
  double read_ns() const { return per(data_.read_ns, data_.reads); }
  double open_ns() const { return per(data_.metadata_ns, data_.opens); }
  double fetch_ns() const { return static_cast<double>(profile_.loading.fetch_mean_ns); }

  double wait_ns() const { return profile_.steps.wait_ns.mean; }
  double compute_ns() const { return times_.mean_s * 1e9; }
  double step_ns() const { return wait_ns() + compute_ns(); }
  double wait_share() const { return ratio_of(wait_ns(), step_ns()); }
  double ascending() const {
    const analyze::DataUse& data = profile_.data;
    return data.samples_indexed > 0 ? data.index_ascending : data.ascending;
  }

  double checkpoint_bytes() const {
    double sum = 0;
    for (const auto& each : profile_.checkpoints) sum += static_cast<double>(each.bytes);
    return ratio_of(sum, static_cast<double>(profile_.checkpoints.size()));
  }
  double checkpoint_ns() const {
    const double time = static_cast<double>(profile_.time.mean.checkpoint_ns);
    return ratio_of(time, static_cast<double>(profile_.checkpoints.size()));
  }

 private:
  static double per(uint64_t value, uint64_t count) {
    return ratio_of(static_cast<double>(value), static_cast<double>(count));
  }

  const Profile& profile_;
  Counts counts_;
  StepTimes times_;
  analyze::IoTotals data_;
};

struct Compared {
  const char* name;
  Unit unit;
  double (*value)(const Figures&);
  bool needs_both = false;  // 0 is unknown, not a value
};

const Compared kCompared[] = {
    {"samples in a batch", Unit::kCount,
     [](const Figures& f) { return static_cast<double>(f.counts().batch_size); }, true},
    {"workers of a rank", Unit::kCount,
     [](const Figures& f) { return static_cast<double>(f.profile().loading.threads); }},
    {"bytes read for a step", Unit::kBytes, [](const Figures& f) { return f.bytes_read(); }},
    {"reads for a step", Unit::kCount, [](const Figures& f) { return f.reads(); }},
    {"opens for a step", Unit::kCount, [](const Figures& f) { return f.opens(); }},
    {"size of a read, p25", Unit::kBytes, [](const Figures& f) { return f.read_size(0.25); }},
    {"size of a read, median", Unit::kBytes, [](const Figures& f) { return f.read_size(0.5); }},
    {"size of a read, p75", Unit::kBytes, [](const Figures& f) { return f.read_size(0.75); }},
    {"size of a read, p95", Unit::kBytes, [](const Figures& f) { return f.read_size(0.95); }},
    {"latency of a read, mean", Unit::kTime, [](const Figures& f) { return f.read_ns(); }},
    {"open, close and stat of a file, mean", Unit::kTime,
     [](const Figures& f) { return f.open_ns(); }},
    {"fetch of a batch, mean", Unit::kTime, [](const Figures& f) { return f.fetch_ns(); }},
    {"compute of a step, mean", Unit::kTime, [](const Figures& f) { return f.compute_ns(); }},
    {"wait of a step, mean", Unit::kTime, [](const Figures& f) { return f.wait_ns(); }},
    {"time of a step, mean", Unit::kTime, [](const Figures& f) { return f.step_ns(); }},
    {"share of waiting in steps", Unit::kShare, [](const Figures& f) { return f.wait_share(); }},
    {"changes of sample or file that go up", Unit::kShare,
     [](const Figures& f) { return f.ascending(); }},
    {"bytes of a checkpoint, mean", Unit::kBytes,
     [](const Figures& f) { return f.checkpoint_bytes(); }},
    {"time of a checkpoint, mean", Unit::kTime, [](const Figures& f) { return f.checkpoint_ns(); }},
};

std::string order_text(const Profile& profile) {
  return std::string(analyze::kReadOrderNames[static_cast<size_t>(profile.data.order)]);
}

}  // namespace

std::optional<double> Measure::ratio() const {
  if (unit == Unit::kText || original == 0) return std::nullopt;
  return model / original;
}

bool Measure::is_close() const {
  if (unit == Unit::kText) return original_text == model_text;
  if (unit == Unit::kShare) return std::abs(model - original) <= kClosePoints;
  return std::abs(model - original) <= kCloseShare * std::max(original, 0.0);
}

size_t Fidelity::close_count() const {
  return static_cast<size_t>(std::count_if(measures.begin(), measures.end(),
                                           [](const Measure& each) { return each.is_close(); }));
}

double quantile_of(const LogHistogram& histogram, double share) {
  const auto total = static_cast<double>(histogram.total());
  double before = 0;
  for (size_t bin = 0; bin < LogHistogram::kBinCount; ++bin) {
    const auto count = static_cast<double>(histogram.bins()[bin]);
    if (count == 0) continue;
    if (before + count < share * total) {
      before += count;
      continue;
    }
    if (bin == 0) return 0;
    const double within = std::clamp((share * total - before) / count, 0.0, 1.0);
    return static_cast<double>(LogHistogram::least_of(bin)) * std::exp2(within);
  }
  return 0;
}

Fidelity fidelity_of(const Profile& original, const Profile& model) {
  const Figures before(original);
  const Figures after(model);
  Fidelity fidelity;
  for (const Compared& compared : kCompared) {
    Measure measure{.name = compared.name,
                    .unit = compared.unit,
                    .original = compared.value(before),
                    .model = compared.value(after)};
    const bool has_both = measure.original != 0 && measure.model != 0;
    const bool has_one = measure.original != 0 || measure.model != 0;
    if (compared.needs_both ? has_both : has_one) fidelity.measures.push_back(measure);
  }
  fidelity.measures.push_back({.name = "order of the samples",
                               .unit = Unit::kText,
                               .original_text = order_text(original),
                               .model_text = order_text(model)});
  fidelity.notes.emplace_back(
      "Latencies depend on the machine and its page cache: the dataset of the model was just "
      "written.");
  if (before.profile().loading.samples == 0) {
    fidelity.notes.emplace_back(
        "The trace of the job has no regions of loading: only sizes and latencies of reads can be "
        "compared.");
  }
  return fidelity;
}

}  // namespace millrace::model
