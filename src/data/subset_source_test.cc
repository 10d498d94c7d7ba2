#include "data/subset_source.h"

#include <gmock/gmock.h>

#include <cstring>

#include "data/testing/source_contract.h"

namespace millrace::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ten samples "0" to "9" in files of 3, 0, 4 and 3; a sample's label is twice its number.
class Digits final : public SampleSource {
 public:
  uint64_t sample_count() const override { return 10; }
  std::string name(SampleId sample) const override {
    return fmt::format("digit {}", index_of(sample));
  }
  std::optional<int64_t> label(SampleId sample) const override {
    return 2 * static_cast<int64_t>(index_of(sample));
  }
  Result<ByteView> read(SampleId sample, Buffer& room) const override {
    const MutableByteView place = room.room(1);
    place[0] = std::byte(static_cast<unsigned char>('0' + index_of(sample)));
    return ByteView(place);
  }
  Result<size_t> read_into(SampleId sample, MutableByteView out) const override {
    if (out.empty()) return fail(Errc::kExhausted, "no room");
    out[0] = std::byte(static_cast<unsigned char>('0' + index_of(sample)));
    return 1;
  }
  ReadWays ways() const override { return {.in_flight = "at once"}; }
  Result<std::unique_ptr<SampleReads>> open_reads(size_t capacity) const override;
  void prepare(std::span<const SampleId> soon) const override {
    prepared_.assign(soon.begin(), soon.end());
  }
  uint64_t group_count() const override { return 4; }
  SampleId group_begin(uint64_t group) const override {
    constexpr uint64_t kBegins[] = {0, 3, 3, 7, 10};
    return SampleId{kBegins[group]};
  }

  mutable std::vector<SampleId> prepared_;
};

// Completes every read as soon as it is submitted.
class DigitReads final : public SampleReads {
 public:
  DigitReads(const Digits& digits, size_t capacity) : digits_(digits), capacity_(capacity) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override { return done_.size(); }
  void submit(const SampleRequest& request) override {
    if (request.room != nullptr) {
      done_.push_back({request.tag, digits_.read(request.sample, *request.room)});
      return;
    }
    const auto size = digits_.read_into(request.sample, request.out);
    done_.push_back({request.tag, size.ok() ? Result<ByteView>(request.out.first(*size))
                                            : Result<ByteView>(size.error())});
  }
  void wait(std::vector<SampleDone>& done) override {
    for (SampleDone& one : done_) done.push_back(std::move(one));
    done_.clear();
  }

 private:
  const Digits& digits_;
  size_t capacity_;
  std::vector<SampleDone> done_;
};

Result<std::unique_ptr<SampleReads>> Digits::open_reads(size_t capacity) const {
  return std::unique_ptr<SampleReads>(std::make_unique<DigitReads>(*this, capacity));
}

std::shared_ptr<const SampleSource> subset(std::initializer_list<uint64_t> numbers) {
  std::vector<SampleId> samples;
  for (const uint64_t number : numbers) samples.push_back(SampleId{number});
  return *SubsetSource::make(std::make_shared<Digits>(), std::move(samples));
}

std::vector<uint64_t> groups_of(const SampleSource& source) {
  std::vector<uint64_t> begins;
  for (uint64_t i = 0; i <= source.group_count(); ++i) {
    begins.push_back(index_of(source.group_begin(i)));
  }
  return begins;
}

TEST(SubsetSource, PassesTheSourceContract) {
  const Status kept =
      check_source({.source = subset({7, 2, 3, 9}), .samples = {"7", "2", "3", "9"}});
  EXPECT_TRUE(kept.ok()) << kept.error().message();
  EXPECT_TRUE(check_source({.source = subset({}), .samples = {}}).ok());
}

TEST(SubsetSource, KeepsNamesAndLabelsOfSamples) {
  const auto source = subset({7, 2, 2});
  EXPECT_EQ(source->name(SampleId{0}), "digit 7");
  EXPECT_EQ(source->label(SampleId{0}), 14);
  EXPECT_EQ(source->name(SampleId{2}), "digit 2");
}

TEST(SubsetSource, KeepsSamplesOfOneFileTogether) {
  EXPECT_THAT(groups_of(*subset({0, 1, 3, 4, 6, 9})), ElementsAre(0, 2, 5, 6));
  EXPECT_THAT(groups_of(*subset({9, 0, 8})), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(groups_of(*subset({})), ElementsAre(0));
}

TEST(SubsetSource, ForwardsPrepareWithSamplesOfTheWholeSource) {
  const auto digits = std::make_shared<Digits>();
  const auto source = *SubsetSource::make(digits, {SampleId{7}, SampleId{2}});
  const SampleId soon[] = {SampleId{1}, SampleId{0}};
  source->prepare(soon);
  EXPECT_THAT(digits->prepared_, ElementsAre(SampleId{2}, SampleId{7}));
}

TEST(SubsetSource, RefusesASampleThatDoesNotExist) {
  const auto made = SubsetSource::make(std::make_shared<Digits>(), {SampleId{3}, SampleId{10}});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(),
              HasSubstr("sample 10 cannot be part of a subset: the source has 10 samples"));
}

}  // namespace
}  // namespace millrace::data
