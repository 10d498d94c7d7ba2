#include "data/subset_source.h"

#include <utility>

namespace millrace::data {
namespace {

// Reads of the whole source by indexes into the subset.
class SubsetReads final : public SampleReads {
 public:
  SubsetReads(std::unique_ptr<SampleReads> reads, std::span<const SampleId> samples)
      : reads_(std::move(reads)), samples_(samples) {}

  size_t capacity() const override { return reads_->capacity(); }
  size_t in_flight() const override { return reads_->in_flight(); }
  void submit(const SampleRequest& request) override {
    SampleRequest of_whole = request;
    of_whole.sample = samples_[index_of(request.sample)];
    reads_->submit(of_whole);
  }
  void wait(std::vector<SampleDone>& done) override { reads_->wait(done); }

 private:
  std::unique_ptr<SampleReads> reads_;
  std::span<const SampleId> samples_;  // of the source, which outlives this
};

}  // namespace

Result<std::shared_ptr<SubsetSource>> SubsetSource::make(std::shared_ptr<const SampleSource> whole,
                                                         std::vector<SampleId> samples) {
  for (const SampleId sample : samples) {
    if (index_of(sample) >= whole->sample_count()) {
      return fail(Errc::kInvalidArgument,
                  "sample {} cannot be part of a subset: the source has {} samples, numbered from "
                  "0",
                  index_of(sample), whole->sample_count());
    }
  }
  return std::shared_ptr<SubsetSource>(new SubsetSource(std::move(whole), std::move(samples)));
}

SubsetSource::SubsetSource(std::shared_ptr<const SampleSource> whole, std::vector<SampleId> samples)
    : whole_(std::move(whole)), samples_(std::move(samples)), group_begins_(find_groups()) {}

Result<std::unique_ptr<SampleReads>> SubsetSource::open_reads(size_t capacity) const {
  ASSIGN_OR_RETURN(auto reads, whole_->open_reads(capacity));
  if (reads == nullptr) return reads;
  return std::unique_ptr<SampleReads>(std::make_unique<SubsetReads>(std::move(reads), samples_));
}

std::vector<SampleId> SubsetSource::all_of_whole(std::span<const SampleId> samples) const {
  std::vector<SampleId> whole_samples;
  whole_samples.reserve(samples.size());
  for (const SampleId sample : samples) whole_samples.push_back(of_whole(sample));
  return whole_samples;
}

void SubsetSource::prepare(std::span<const SampleId> soon) const {
  whole_->prepare(all_of_whole(soon));
}

// With a copy of the samples: the whole source may use the order when this one is gone.
void SubsetSource::expect(const ComingOrder& order) const {
  if (!wants_order()) return;
  whole_->expect([order, samples = std::make_shared<const std::vector<SampleId>>(samples_)] {
    return [next = order(), samples]() -> std::optional<SampleId> {
      const auto sample = next();
      return sample ? std::optional((*samples)[index_of(*sample)]) : std::nullopt;
    };
  });
}

void SubsetSource::finished(std::span<const SampleId> read) const {
  if (wants_order()) whole_->finished(all_of_whole(read));
}

std::vector<SampleId> SubsetSource::find_groups() const {
  std::vector<SampleId> begins;
  // The group of the previous sample in the whole source: [begin, end).
  uint64_t begin = 0;
  uint64_t end = 0;
  for (uint64_t i = 0; i < samples_.size(); ++i) {
    const uint64_t sample = index_of(samples_[i]);
    if (sample >= begin && sample < end) continue;
    begins.push_back(SampleId{i});
    const uint64_t group = group_of_whole(samples_[i]);
    begin = index_of(whole_->group_begin(group));
    end = index_of(whole_->group_begin(group + 1));
  }
  begins.push_back(SampleId{samples_.size()});
  return begins;
}

// The last group of the whole source that begins at or before its sample.
uint64_t SubsetSource::group_of_whole(SampleId sample) const {
  uint64_t group = 0;
  uint64_t past = whole_->group_count();
  while (past - group > 1) {
    const uint64_t middle = group + (past - group) / 2;
    (index_of(whole_->group_begin(middle)) <= index_of(sample) ? group : past) = middle;
  }
  return group;
}

}  // namespace millrace::data
