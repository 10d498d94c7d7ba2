// SlicesSource: files whose samples cannot be read one by one, such as npz with several samples.
//
// DLIO stores them with the sample as the last axis, so a reader must read the whole file for each
// sample, as numpy does. A sample here is the file that holds it.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <string>

#include "data/source.h"

namespace millrace::bench {

class SlicesSource final : public data::SampleSource {
 public:
  // `files` has one sample for each file. It is shared with the caller.
  SlicesSource(std::shared_ptr<const data::SampleSource> files, uint64_t samples_per_file)
      : files_(std::move(files)), samples_per_file_(samples_per_file) {}

  uint64_t sample_count() const override { return files_->sample_count() * samples_per_file_; }
  std::string name(data::SampleId sample) const override {
    return fmt::format("{}: sample {}", files_->name(file_of(sample)),
                       data::index_of(sample) % samples_per_file_);
  }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return files_->label(file_of(sample));
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override {
    return files_->read(file_of(sample), room);
  }
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override {
    return files_->read_into(file_of(sample), out);
  }
  uint64_t group_count() const override { return files_->sample_count(); }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{group * samples_per_file_};
  }

 private:
  data::SampleId file_of(data::SampleId sample) const {
    return data::SampleId{data::index_of(sample) / samples_per_file_};
  }

  std::shared_ptr<const data::SampleSource> files_;
  uint64_t samples_per_file_;
};

}  // namespace millrace::bench
