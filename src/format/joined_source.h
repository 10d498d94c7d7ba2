// JoinedSource: samples that are one file in each of several folders, such as an image and its
// mask.
//
// Sample i consists of sample i of every part. Its bytes are those of the parts, each after its
// length (docs/formats/joined-sample.md), so that caches and shard storage keep it as a whole.
// JoinedFormat splits them into one field per part, with the name of the part.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/source.h"
#include "format/format.h"

namespace millrace::format {

struct Part {
  std::string name;
  std::shared_ptr<const data::SampleSource> source;  // shared with the caller
};

class JoinedSource final : public data::SampleSource {
 public:
  // Fails if there is no part, or if parts have different numbers of samples.
  static Result<std::shared_ptr<JoinedSource>> make(std::vector<Part> parts);

  // Names and groups are those of the first part.
  uint64_t sample_count() const override { return first().sample_count(); }
  std::string name(data::SampleId sample) const override { return first().name(sample); }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return first().label(sample);
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  void prepare(std::span<const data::SampleId> soon) const override;
  bool wants_order() const override;
  void expect(const data::ComingOrder& order) const override;
  void finished(std::span<const data::SampleId> read) const override;
  uint64_t group_count() const override { return first().group_count(); }
  data::SampleId group_begin(uint64_t group) const override { return first().group_begin(group); }
  std::string group_path(uint64_t group) const override { return first().group_path(group); }

  // Splits the samples.
  std::shared_ptr<const Format> format() const;

 private:
  explicit JoinedSource(std::vector<Part> parts) : parts_(std::move(parts)) {}

  const data::SampleSource& first() const { return *parts_.front().source; }

  std::vector<Part> parts_;
};

}  // namespace millrace::format
