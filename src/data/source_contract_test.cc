// That the contract passes a source that keeps it, and finds each way to break it.
#include "data/source_contract.h"

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
    // The contract gives room for what it asks to be left alone.
    if (breach_ == Breach::kWritesTooMuch) out.data()[bytes.size()] = std::byte{'!'};
    return bytes.size() - (breach_ == Breach::kReadInto ? 1 : 0);
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

const std::vector<std::string> kSamples = {"abc", "x", "defgh"};

Status check_with(Breach breach) {
  return check_source(
      {.source = std::make_shared<FakeSource>(kSamples, breach), .samples = kSamples});
}

TEST(SourceContract, PassesASourceThatKeepsIt) {
  const Status status = check_with(Breach::kNone);
  EXPECT_TRUE(status.ok()) << status.error().message();
}

TEST(SourceContract, NamesTheClauseThatIsBroken) {
  const std::pair<Breach, const char*> breaches[] = {
      {Breach::kCount, "counts_its_samples: "},
      {Breach::kBytes, "reads_the_same_in_any_order: "},
      {Breach::kReadInto, "reads_into_place: "},
      {Breach::kWritesTooMuch, "reads_into_place: "},
      {Breach::kNoExhausted, "too_little_room_is_exhausted: "},
      {Breach::kNames, "names_tell_samples_apart: "},
      {Breach::kLabels, "labels_stay: "},
      {Breach::kGroups, "groups_cover_the_samples: "},
  };
  for (const auto& [breach, clause] : breaches) {
    const Status status = check_with(breach);
    ASSERT_FALSE(status.ok()) << clause;
    EXPECT_THAT(status.error().message(), testing::StartsWith(clause));
  }
}

}  // namespace
}  // namespace millrace::data
