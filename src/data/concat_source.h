// ConcatSource: the samples of several sources, one source after the other.
//
// For datasets that are used together, such as the parts of a mixture. Sample i of the second
// source follows the last sample of the first, with its own name and label. Groups follow likewise.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/decoder.h"
#include "data/source.h"

namespace millrace::data {

// Where the samples of each part begin.
class PartBegins {
 public:
  // REQUIRES: the sum of the counts fits into 64 bits
  explicit PartBegins(std::span<const uint64_t> counts);

  struct Place {
    size_t part = 0;
    SampleId sample{};  // in the part
  };
  // REQUIRES: the sample is below total()
  Place place_of(SampleId sample) const;

  uint64_t total() const { return begins_.back(); }
  uint64_t begin_of(size_t part) const { return begins_[part]; }

 private:
  std::vector<uint64_t> begins_;  // of each part, and the end of the last
};

class ConcatSource final : public SampleSource {
 public:
  // Shared with the caller. Fails if there are no parts, or more samples than 2^63.
  static Result<std::shared_ptr<ConcatSource>> make(
      std::vector<std::shared_ptr<const SampleSource>> parts);

  uint64_t sample_count() const override { return begins_.total(); }
  std::string name(SampleId sample) const override;
  std::optional<int64_t> label(SampleId sample) const override;
  Result<ByteView> read(SampleId sample, Buffer& room) const override;
  Result<size_t> read_into(SampleId sample, MutableByteView out) const override;
  // Reads in flight only if all parts are read in the same ways.
  ReadWays ways() const override;
  Result<std::unique_ptr<SampleReads>> open_reads(size_t capacity) const override;
  void prepare(std::span<const SampleId> soon) const override;
  bool wants_order() const override;
  void expect(const ComingOrder& order) const override;
  void finished(std::span<const SampleId> read) const override;
  void start_epoch(Epoch epoch, uint64_t done) const override;
  bool can_read_ahead() const override;
  uint64_t group_count() const override { return groups_.total(); }
  SampleId group_begin(uint64_t group) const override;
  std::string group_path(uint64_t group) const override;

 private:
  ConcatSource(std::vector<std::shared_ptr<const SampleSource>> parts,
               std::span<const uint64_t> sample_counts, std::span<const uint64_t> group_counts);
  std::vector<std::vector<SampleId>> by_part(std::span<const SampleId> samples) const;

  std::vector<std::shared_ptr<const SampleSource>> parts_;
  PartBegins begins_;
  PartBegins groups_;
};

// Decodes the samples of a ConcatSource: each part has its own decoder.
//
// A part's decoder gets the number of the sample in its part, and a seed of the part, so that equal
// numbers of two parts are not augmented alike. The first part keeps the seed.
class ConcatDecoder final : public Decoder {
 public:
  // Fails, with the difference, unless all decoders have the same fields. REQUIRES: as many
  // decoders as counts, at least one
  static Result<std::shared_ptr<ConcatDecoder>> make(
      std::vector<std::shared_ptr<const Decoder>> decoders, std::span<const uint64_t> counts);

  // For a SubsetSource of these samples of the ConcatSource.
  std::shared_ptr<ConcatDecoder> of_subset(std::vector<SampleId> samples) const;

  std::vector<FieldSpec> fields() const override { return decoders_[0]->fields(); }
  bool is_verbatim() const override;
  std::unique_ptr<Scratch> make_scratch() const override;
  Status decode(ByteView sample, const DecodeContext& context, std::span<const Output> outputs,
                Scratch* scratch) const override;

 private:
  ConcatDecoder(std::vector<std::shared_ptr<const Decoder>> decoders,
                std::span<const uint64_t> counts)
      : decoders_(std::move(decoders)), begins_(counts) {}

  std::vector<std::shared_ptr<const Decoder>> decoders_;
  PartBegins begins_;
  std::optional<std::vector<SampleId>> subset_;
};

}  // namespace millrace::data
