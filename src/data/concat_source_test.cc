#include "data/concat_source.h"

#include <gmock/gmock.h>

#include <cstring>

#include "data/testing/digits.h"
#include "data/testing/source_contract.h"

namespace millrace::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Parts = std::vector<std::shared_ptr<const SampleSource>>;

class Empty final : public SampleSource {
 public:
  uint64_t sample_count() const override { return 0; }
  std::string name(SampleId) const override { return ""; }
  std::optional<int64_t> label(SampleId) const override { return std::nullopt; }
  Result<ByteView> read(SampleId, Buffer&) const override { return ByteView(); }
  Result<size_t> read_into(SampleId, MutableByteView) const override { return size_t{0}; }
  uint64_t group_count() const override { return 0; }
  SampleId group_begin(uint64_t) const override { return SampleId{0}; }
};

// Two times ten digits, with nothing between them.
std::shared_ptr<const SampleSource> twenty() {
  return *ConcatSource::make(Parts{std::make_shared<Digits>(), std::make_shared<Empty>(),
                                   std::make_shared<Digits>("second")});
}

std::vector<std::string> twenty_digits() {
  std::vector<std::string> digits;
  for (int i = 0; i < 20; ++i) digits.push_back(std::to_string(i % 10));
  return digits;
}

TEST(ConcatSource, PassesTheSourceContract) {
  const Status kept = check_source({.source = twenty(), .samples = twenty_digits()});
  EXPECT_TRUE(kept.ok()) << kept.error().message();
  const auto flying =
      *ConcatSource::make(Parts{std::make_shared<Digits>(), std::make_shared<Digits>("second")});
  EXPECT_EQ(flying->ways().in_flight, "at once");
  const Status flown = check_source({.source = flying, .samples = twenty_digits()});
  EXPECT_TRUE(flown.ok()) << flown.error().message();
  const auto nothing = *ConcatSource::make(Parts{std::make_shared<Empty>()});
  EXPECT_TRUE(check_source({.source = nothing, .samples = {}}).ok());
}

TEST(ConcatSource, KeepsNamesLabelsAndGroups) {
  const auto source = twenty();
  EXPECT_EQ(source->name(SampleId{13}), "second 3");
  EXPECT_EQ(source->label(SampleId{13}), 6);
  std::vector<uint64_t> begins;
  for (uint64_t i = 0; i <= source->group_count(); ++i) {
    begins.push_back(index_of(source->group_begin(i)));
  }
  EXPECT_THAT(begins, ElementsAre(0, 3, 3, 7, 10, 13, 13, 17, 20));
}

TEST(ConcatSource, ReadsInFlightOnlyIfAllPartsDo) {
  const auto source = twenty();
  EXPECT_EQ(source->ways().in_flight, "");
  EXPECT_THAT(source->ways().refusal, HasSubstr("different engines"));
  EXPECT_EQ(*source->open_reads(4), nullptr);
}

TEST(ConcatSource, ReturnsAllReadsInFlightOfAllParts) {
  const auto source =
      *ConcatSource::make(Parts{std::make_shared<Digits>(), std::make_shared<Digits>()});
  const auto reads = *source->open_reads(8);
  ASSERT_NE(reads, nullptr);
  std::array<Buffer, 8> rooms;
  std::array<uint64_t, 8> samples = {3, 12, 4, 19, 0, 10, 9, 15};
  for (size_t i = 0; i < 8; ++i) {
    reads->submit({.sample = SampleId{samples[i]}, .room = &rooms[i], .tag = i});
  }
  EXPECT_EQ(reads->in_flight(), 8u);
  std::vector<SampleDone> done;
  while (reads->in_flight() > 0) reads->wait(done);
  ASSERT_EQ(done.size(), 8u);
  for (const SampleDone& one : done) {
    ASSERT_TRUE(one.bytes.ok());
    EXPECT_EQ((*one.bytes)[0], std::byte(static_cast<unsigned char>('0' + samples[one.tag] % 10)));
  }
  reads->wait(done);  // nothing is in flight
  EXPECT_EQ(done.size(), 8u);
}

TEST(ConcatSource, ForwardsPrepareWithSamplesOfThePart) {
  const auto first = std::make_shared<Digits>();
  const auto second = std::make_shared<Digits>();
  const auto source = *ConcatSource::make(Parts{first, second});
  const SampleId soon[] = {SampleId{15}, SampleId{2}, SampleId{10}};
  source->prepare(soon);
  EXPECT_THAT(first->prepared_, ElementsAre(SampleId{2}));
  EXPECT_THAT(second->prepared_, ElementsAre(SampleId{5}, SampleId{0}));
}

TEST(ConcatSource, NeedsAPart) {
  const auto made = ConcatSource::make({});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), HasSubstr("no datasets"));
}

// Writes its own number, and the sample and the seed that it is given.
class Telling final : public Decoder {
 public:
  explicit Telling(uint64_t number, Shape shape = {3}) : number_(number), shape_(shape) {}
  std::vector<FieldSpec> fields() const override { return {{"given", ElementType::kI64, shape_}}; }
  Status decode(ByteView, const DecodeContext& context, std::span<const Output> outputs,
                Scratch*) const override {
    const uint64_t told[] = {number_, index_of(context.sample), context.seed};
    std::memcpy(outputs[0].bytes().data(), told, sizeof told);
    return {};
  }

 private:
  uint64_t number_;
  Shape shape_;
};

std::vector<uint64_t> told_by(const Decoder& decoder, uint64_t sample) {
  std::vector<uint64_t> told(3);
  const Output out = MutableByteView(std::as_writable_bytes(std::span(told)));
  const auto scratch = decoder.make_scratch();
  EXPECT_TRUE(
      decoder.decode({}, {.sample = SampleId{sample}, .seed = 5}, std::span(&out, 1), scratch.get())
          .ok());
  return told;
}

std::shared_ptr<ConcatDecoder> three_decoders() {
  const uint64_t counts[] = {10, 0, 10};
  return *ConcatDecoder::make(
      {std::make_shared<Telling>(0), std::make_shared<Telling>(1), std::make_shared<Telling>(2)},
      counts);
}

TEST(ConcatDecoder, DecodesEachSampleByItsPart) {
  const auto decoder = three_decoders();
  EXPECT_THAT(told_by(*decoder, 9), ElementsAre(0, 9, 5));
  const auto second = told_by(*decoder, 13);
  EXPECT_EQ(second[0], 2u);
  EXPECT_EQ(second[1], 3u);
  EXPECT_NE(second[2], 5u);  // or sample 3 of both parts would be augmented alike
  EXPECT_EQ(told_by(*decoder, 19)[2], second[2]);
}

TEST(ConcatDecoder, DecodesASubset) {
  const auto subset = three_decoders()->of_subset({SampleId{13}, SampleId{9}});
  EXPECT_EQ(told_by(*subset, 0), told_by(*three_decoders(), 13));
  EXPECT_EQ(told_by(*subset, 1), told_by(*three_decoders(), 9));
  EXPECT_EQ(told_by(*subset->of_subset({SampleId{1}}), 0), told_by(*three_decoders(), 9));
}

TEST(ConcatDecoder, RefusesDifferentFields) {
  const uint64_t counts[] = {10, 10};
  const auto made = ConcatDecoder::make(
      {std::make_shared<Telling>(0), std::make_shared<Telling>(1, Shape{4})}, counts);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(),
              HasSubstr("dataset 0 has given int64[3], and dataset 1 has given int64[4]"));
}

}  // namespace
}  // namespace millrace::data
