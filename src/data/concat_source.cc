#include "data/concat_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/numbers/counter_random.h"

namespace millrace::data {
namespace {

constexpr uint64_t kSampleCountMax = uint64_t{1} << 63;

// Reads of several sources. They take turns to be waited for, so that every read is returned, even
// if another source is always busy.
class ConcatReads final : public SampleReads {
 public:
  ConcatReads(std::vector<std::unique_ptr<SampleReads>> parts, const PartBegins& begins,
              size_t capacity)
      : parts_(std::move(parts)), begins_(begins), capacity_(capacity) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override {
    size_t sum = 0;
    for (const auto& part : parts_) sum += part->in_flight();
    return sum;
  }

  void submit(const SampleRequest& request) override {
    const PartBegins::Place place = begins_.place_of(request.sample);
    SampleRequest of_part = request;
    of_part.sample = place.sample;
    parts_[place.part]->submit(of_part);
  }

  void wait(std::vector<SampleDone>& done) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      SampleReads& part = *parts_[turn_];
      turn_ = (turn_ + 1) % parts_.size();
      if (part.in_flight() > 0) return part.wait(done);
    }
  }

 private:
  std::vector<std::unique_ptr<SampleReads>> parts_;
  const PartBegins& begins_;  // of the source, which outlives this
  size_t capacity_;
  size_t turn_ = 0;
};

// What the threads of a ConcatDecoder keep, by part.
class ConcatScratch final : public Scratch {
 public:
  std::vector<std::unique_ptr<Scratch>> parts;
};

bool are_equal(const ReadWays& a, const ReadWays& b) {
  return a.one_at_a_time == b.one_at_a_time && a.in_flight == b.in_flight &&
         a.is_open_choice == b.is_open_choice;
}

std::string text_of(const std::vector<FieldSpec>& fields) {
  std::string text;
  for (const FieldSpec& field : fields) {
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", field.name, element_name(field.type),
                        field.shape.text());
  }
  return text;
}

}  // namespace

PartBegins::PartBegins(std::span<const uint64_t> counts) : begins_{0} {
  for (const uint64_t count : counts) begins_.push_back(begins_.back() + count);
}

PartBegins::Place PartBegins::place_of(SampleId sample) const {
  const auto after = std::ranges::upper_bound(begins_, index_of(sample));
  const auto part = static_cast<size_t>(after - begins_.begin()) - 1;
  return {.part = part, .sample = SampleId{index_of(sample) - begins_[part]}};
}

Result<std::shared_ptr<ConcatSource>> ConcatSource::make(
    std::vector<std::shared_ptr<const SampleSource>> parts) {
  if (parts.empty()) return fail(Errc::kInvalidArgument, "there are no datasets to concatenate");
  std::vector<uint64_t> sample_counts;
  std::vector<uint64_t> group_counts;
  uint64_t left = kSampleCountMax;
  for (const auto& part : parts) {
    if (part->sample_count() > left) {
      return fail(Errc::kInvalidArgument, "the datasets have more than {} samples together",
                  kSampleCountMax);
    }
    left -= part->sample_count();
    sample_counts.push_back(part->sample_count());
    group_counts.push_back(part->group_count());
  }
  return std::shared_ptr<ConcatSource>(
      new ConcatSource(std::move(parts), sample_counts, group_counts));
}

ConcatSource::ConcatSource(std::vector<std::shared_ptr<const SampleSource>> parts,
                           std::span<const uint64_t> sample_counts,
                           std::span<const uint64_t> group_counts)
    : parts_(std::move(parts)), begins_(sample_counts), groups_(group_counts) {}

std::string ConcatSource::name(SampleId sample) const {
  const PartBegins::Place place = begins_.place_of(sample);
  return parts_[place.part]->name(place.sample);
}

std::optional<int64_t> ConcatSource::label(SampleId sample) const {
  const PartBegins::Place place = begins_.place_of(sample);
  return parts_[place.part]->label(place.sample);
}

Result<ByteView> ConcatSource::read(SampleId sample, Buffer& room) const {
  const PartBegins::Place place = begins_.place_of(sample);
  return parts_[place.part]->read(place.sample, room);
}

Result<size_t> ConcatSource::read_into(SampleId sample, MutableByteView out) const {
  const PartBegins::Place place = begins_.place_of(sample);
  return parts_[place.part]->read_into(place.sample, out);
}

ReadWays ConcatSource::ways() const {
  const ReadWays first = parts_[0]->ways();
  for (const auto& part : parts_) {
    if (!are_equal(part->ways(), first)) {
      return {.refusal = "the concatenated datasets are read by different engines"};
    }
  }
  return first;
}

Result<std::unique_ptr<SampleReads>> ConcatSource::open_reads(size_t capacity) const {
  if (ways().in_flight.empty()) return std::unique_ptr<SampleReads>();
  std::vector<std::unique_ptr<SampleReads>> reads;
  for (const auto& part : parts_) {
    ASSIGN_OR_RETURN(auto of_part, part->open_reads(capacity));
    if (!of_part) return std::unique_ptr<SampleReads>();
    reads.push_back(std::move(of_part));
  }
  return std::unique_ptr<SampleReads>(
      std::make_unique<ConcatReads>(std::move(reads), begins_, capacity));
}

std::vector<std::vector<SampleId>> ConcatSource::by_part(std::span<const SampleId> samples) const {
  std::vector<std::vector<SampleId>> of_parts(parts_.size());
  for (const SampleId sample : samples) {
    const PartBegins::Place place = begins_.place_of(sample);
    of_parts[place.part].push_back(place.sample);
  }
  return of_parts;
}

void ConcatSource::prepare(std::span<const SampleId> soon) const {
  const auto of_parts = by_part(soon);
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!of_parts[part].empty()) parts_[part]->prepare(of_parts[part]);
  }
}

bool ConcatSource::wants_order() const {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->wants_order(); });
}

// Each part gets its own samples of the order.
void ConcatSource::expect(const ComingOrder& order) const {
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!parts_[part]->wants_order()) continue;
    parts_[part]->expect([order, part, begins = begins_] {
      return [next = order(), part, begins]() -> std::optional<SampleId> {
        while (const auto sample = next()) {
          const PartBegins::Place place = begins.place_of(*sample);
          if (place.part == part) return place.sample;
        }
        return std::nullopt;
      };
    });
  }
}

void ConcatSource::finished(std::span<const SampleId> read) const {
  if (!wants_order()) return;
  const auto of_parts = by_part(read);
  for (size_t part = 0; part < parts_.size(); ++part) parts_[part]->finished(of_parts[part]);
}

void ConcatSource::start_epoch(Epoch epoch, uint64_t done) const {
  for (const auto& part : parts_) part->start_epoch(epoch, done);
}

bool ConcatSource::can_read_ahead() const {
  return std::ranges::all_of(parts_, [](const auto& part) { return part->can_read_ahead(); });
}

SampleId ConcatSource::group_begin(uint64_t group) const {
  if (group == groups_.total()) return SampleId{sample_count()};
  const PartBegins::Place place = groups_.place_of(SampleId{group});
  const SampleId in_part = parts_[place.part]->group_begin(index_of(place.sample));
  return SampleId{begins_.begin_of(place.part) + index_of(in_part)};
}

std::string ConcatSource::group_path(uint64_t group) const {
  const PartBegins::Place place = groups_.place_of(SampleId{group});
  return parts_[place.part]->group_path(index_of(place.sample));
}

// ---- ConcatDecoder ----

Result<std::shared_ptr<ConcatDecoder>> ConcatDecoder::make(
    std::vector<std::shared_ptr<const Decoder>> decoders, std::span<const uint64_t> counts) {
  const std::vector<FieldSpec> first = decoders[0]->fields();
  for (size_t part = 1; part < decoders.size(); ++part) {
    const std::vector<FieldSpec> fields = decoders[part]->fields();
    if (fields != first) {
      return fail(Errc::kInvalidArgument,
                  "datasets of one batch must have the same fields, but dataset 0 has {}, and "
                  "dataset {} has {}",
                  text_of(first), part, text_of(fields));
    }
  }
  return std::shared_ptr<ConcatDecoder>(new ConcatDecoder(std::move(decoders), counts));
}

std::shared_ptr<ConcatDecoder> ConcatDecoder::of_subset(std::vector<SampleId> samples) const {
  std::shared_ptr<ConcatDecoder> copy(new ConcatDecoder(*this));
  if (subset_) {
    for (SampleId& sample : samples) sample = (*subset_)[index_of(sample)];
  }
  copy->subset_ = std::move(samples);
  return copy;
}

bool ConcatDecoder::is_verbatim() const {
  return std::ranges::all_of(decoders_, [](const auto& each) { return each->is_verbatim(); });
}

std::unique_ptr<Scratch> ConcatDecoder::make_scratch() const {
  auto scratch = std::make_unique<ConcatScratch>();
  for (const auto& decoder : decoders_) scratch->parts.push_back(decoder->make_scratch());
  return scratch;
}

Status ConcatDecoder::decode(ByteView sample, const DecodeContext& context,
                             std::span<const Output> outputs, Scratch* scratch) const {
  const PartBegins::Place place =
      begins_.place_of(subset_ ? (*subset_)[index_of(context.sample)] : context.sample);
  DecodeContext of_part = context;
  of_part.sample = place.sample;
  if (place.part > 0) of_part.seed = CounterRandom(context.seed, place.part).at(0);
  return decoders_[place.part]->decode(
      sample, of_part, outputs, static_cast<ConcatScratch&>(*scratch).parts[place.part].get());
}

}  // namespace millrace::data
