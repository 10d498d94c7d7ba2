// SubsetSource: selected samples of another source, in any order.
//
// For a part of a dataset, such as a validation split. Sample i is samples[i] of the other source,
// with its name and label. A sample may occur more than once. Takes eight bytes per sample.
// Consecutive samples from one group of the other source form a group here.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "data/source.h"

namespace millrace::data {

class SubsetSource final : public SampleSource {
 public:
  // Fails if `whole`, which is shared with the caller, lacks a sample.
  static Result<std::shared_ptr<SubsetSource>> make(std::shared_ptr<const SampleSource> whole,
                                                    std::vector<SampleId> samples);

  uint64_t sample_count() const override { return samples_.size(); }
  std::string name(SampleId sample) const override { return whole_->name(of_whole(sample)); }
  std::optional<int64_t> label(SampleId sample) const override {
    return whole_->label(of_whole(sample));
  }
  Result<ByteView> read(SampleId sample, Buffer& room) const override {
    return whole_->read(of_whole(sample), room);
  }
  Result<size_t> read_into(SampleId sample, MutableByteView out) const override {
    return whole_->read_into(of_whole(sample), out);
  }
  ReadWays ways() const override { return whole_->ways(); }
  Result<std::unique_ptr<SampleReads>> open_reads(size_t capacity) const override;
  void prepare(std::span<const SampleId> soon) const override;
  bool wants_order() const override { return whole_->wants_order(); }
  void expect(const ComingOrder& order) const override;
  void finished(std::span<const SampleId> read) const override;
  void start_epoch(Epoch epoch, uint64_t done) const override { whole_->start_epoch(epoch, done); }
  bool can_read_ahead() const override { return whole_->can_read_ahead(); }
  uint64_t group_count() const override { return group_begins_.size() - 1; }
  SampleId group_begin(uint64_t group) const override { return group_begins_[group]; }
  std::string group_path(uint64_t group) const override {
    return whole_->group_path(group_of_whole(of_whole(group_begins_[group])));
  }

 private:
  SubsetSource(std::shared_ptr<const SampleSource> whole, std::vector<SampleId> samples);

  SampleId of_whole(SampleId sample) const { return samples_[index_of(sample)]; }
  std::vector<SampleId> all_of_whole(std::span<const SampleId> samples) const;
  std::vector<SampleId> find_groups() const;
  uint64_t group_of_whole(SampleId sample) const;

  std::shared_ptr<const SampleSource> whole_;
  std::vector<SampleId> samples_;
  std::vector<SampleId> group_begins_;  // and one past the last sample
};

}  // namespace millrace::data
