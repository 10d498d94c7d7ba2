// Checks that the contract accepts a correct source and detects every violation.
#include "data/testing/source_contract.h"

#include <gmock/gmock.h>

#include <cstring>

namespace millrace::data {
namespace {

enum class Breach {
  kNone,
  kCount,
  kBytes,
  kReadInto,
  kWritesTooMuch,
  kNoExhausted,
  kNames,
  kLabels,
  kGroups,
  kNoWay,
  kFlownBytes,
  kFlownTwice,
  kFlownTooFar,
  kFlownNoExhausted,
};

// Completes the newest request first, in wait(), and commits the requested breach.
class FakeReads final : public SampleReads {
 public:
  FakeReads(const SampleSource& source, size_t capacity, Breach breach)
      : source_(source), capacity_(capacity), breach_(breach) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override { return requests_.size(); }
  void submit(const SampleRequest& request) override { requests_.push_back(request); }

  void wait(std::vector<SampleDone>& done) override {
    if (requests_.empty()) return;
    const SampleRequest request = requests_.back();
    requests_.pop_back();
    done.push_back({request.tag, made(request)});
    if (breach_ == Breach::kFlownTwice) done.push_back(done.back());
  }

 private:
  Result<ByteView> made(const SampleRequest& request) const;

  const SampleSource& source_;
  size_t capacity_;
  Breach breach_;
  std::vector<SampleRequest> requests_;
};

class FakeSource final : public SampleSource {
 public:
  explicit FakeSource(std::vector<std::string> samples, Breach breach)
      : samples_(std::move(samples)), breach_(breach) {}

  uint64_t sample_count() const override {
    return samples_.size() + (breach_ == Breach::kCount ? 1 : 0);
  }

  std::string name(SampleId sample) const override {
    return breach_ == Breach::kNames ? "a sample" : fmt::format("sample {}", index_of(sample));
  }

  std::optional<int64_t> label(SampleId sample) const override {
    static_cast<void>(sample);
    if (breach_ == Breach::kLabels) return -7;
    return std::nullopt;
  }

  Result<ByteView> read(SampleId sample, Buffer& room) const override {
    const std::string& bytes = samples_[index_of(sample)];
    const MutableByteView place = room.room(bytes.size());
    std::memcpy(place.data(), bytes.data(), bytes.size());
    if (breach_ == Breach::kBytes && !bytes.empty()) place[0] = std::byte{'?'};
    return ByteView(place);
  }

  Result<size_t> read_into(SampleId sample, MutableByteView out) const override {
    const std::string& bytes = samples_[index_of(sample)];
    if (bytes.size() > out.size()) {
      return fail(breach_ == Breach::kNoExhausted ? Errc::kIo : Errc::kExhausted, "no room");
    }
    std::memcpy(out.data(), bytes.data(), bytes.size());
    // The contract leaves room after the sample, so this write is safe.
    if (breach_ == Breach::kWritesTooMuch) out.data()[bytes.size()] = std::byte{'!'};
    return bytes.size() - (breach_ == Breach::kReadInto ? 1 : 0);
  }

  ReadWays ways() const override {
    return {.one_at_a_time = "fake", .in_flight = breach_ == Breach::kNoWay ? "" : "fake"};
  }
  Result<std::unique_ptr<SampleReads>> open_reads(size_t capacity) const override {
    return std::unique_ptr<SampleReads>(std::make_unique<FakeReads>(*this, capacity, breach_));
  }

  uint64_t group_count() const override { return 2; }
  SampleId group_begin(uint64_t group) const override {
    if (group == 0) return SampleId{0};
    if (group == 1) return SampleId{breach_ == Breach::kGroups ? 9u : 1u};
    return SampleId{samples_.size()};
  }

 private:
  std::vector<std::string> samples_;
  Breach breach_;
};

Result<ByteView> FakeReads::made(const SampleRequest& request) const {
  if (request.room != nullptr) {
    ASSIGN_OR_RETURN(const ByteView bytes, source_.read(request.sample, *request.room));
    return breach_ == Breach::kFlownBytes ? bytes.first(bytes.size() / 2) : bytes;
  }
  const auto size_bytes = source_.read_into(request.sample, request.out);
  if (!size_bytes.ok() && breach_ == Breach::kFlownNoExhausted) return fail(Errc::kIo, "no room");
  if (!size_bytes.ok()) return size_bytes.error();
  // The contract leaves room after the sample, so this write is safe.
  if (breach_ == Breach::kFlownTooFar) request.out.data()[*size_bytes] = std::byte{'!'};
  return ByteView(request.out).first(*size_bytes);
}

const std::vector<std::string> kSamples = {"abc", "x", "defgh"};

Status check_with(Breach breach) {
  return check_source(
      {.source = std::make_shared<FakeSource>(kSamples, breach), .samples = kSamples});
}

TEST(SourceContract, AcceptsACorrectSource) {
  const Status status = check_with(Breach::kNone);
  EXPECT_TRUE(status.ok()) << status.error().message();
}

TEST(SourceContract, NamesTheViolatedClause) {
  const std::pair<Breach, const char*> breaches[] = {
      {Breach::kCount, "counts_its_samples: "},
      {Breach::kBytes, "reads_the_same_in_any_order: "},
      {Breach::kReadInto, "reads_into_place: "},
      {Breach::kWritesTooMuch, "reads_into_place: "},
      {Breach::kNoExhausted, "short_room_is_exhausted: "},
      {Breach::kNames, "names_are_unique: "},
      {Breach::kLabels, "labels_do_not_change: "},
      {Breach::kGroups, "groups_cover_the_samples: "},
      {Breach::kNoWay, "open_reads_agrees_with_ways: "},
      {Breach::kFlownBytes, "reads_in_flight_equal_read: "},
      {Breach::kFlownTwice, "reads_in_flight_equal_read: a read came back twice"},
      {Breach::kFlownTooFar, "reads_in_flight_equal_read: "},
      {Breach::kFlownNoExhausted, "short_room_in_flight_is_exhausted: "},
  };
  for (const auto& [breach, clause] : breaches) {
    const Status status = check_with(breach);
    ASSERT_FALSE(status.ok()) << clause;
    EXPECT_THAT(status.error().message(), testing::StartsWith(clause));
  }
}

}  // namespace
}  // namespace millrace::data
