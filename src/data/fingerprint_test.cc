#include "data/fingerprint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::data {
namespace {

class Named final : public SampleSource {
 public:
  explicit Named(std::vector<std::string> names, int64_t label = 0)
      : names_(std::move(names)), label_(label) {}

  uint64_t sample_count() const override { return names_.size(); }
  std::string name(SampleId sample) const override { return names_[index_of(sample)]; }
  std::optional<int64_t> label(SampleId) const override { return label_; }
  Result<ByteView> read(SampleId, Buffer&) const override { return ByteView(); }
  Result<size_t> read_into(SampleId, MutableByteView) const override { return 0; }
  uint64_t group_count() const override { return 1; }
  SampleId group_begin(uint64_t group) const override { return SampleId{group * names_.size()}; }

 private:
  std::vector<std::string> names_;
  int64_t label_;
};

const Named kPets({"train/cat/1", "train/cat/2", "train/dog/1"});

TEST(Fingerprint, DoesNotChangeIfTheDatasetIsMoved) {
  EXPECT_EQ(fingerprint(Named({"/fast/t/cat/1", "/fast/t/cat/2", "/fast/t/dog/1"})),
            fingerprint(kPets));
  EXPECT_EQ(fingerprint(Named({"cat/1", "cat/2", "dog/1"})), fingerprint(kPets));
}

TEST(Fingerprint, ChangesWithNamesOrderLabelsAndCount) {
  EXPECT_NE(fingerprint(Named({"train/cat/1", "train/cat/3", "train/dog/1"})), fingerprint(kPets));
  EXPECT_NE(fingerprint(Named({"train/cat/2", "train/cat/1", "train/dog/1"})), fingerprint(kPets));
  EXPECT_NE(fingerprint(Named({"train/cat/1", "train/cat/2", "train/dog/1"}, 5)),
            fingerprint(kPets));
  EXPECT_NE(fingerprint(Named({"train/cat/1", "train/dog/1"})), fingerprint(kPets));
  EXPECT_NE(fingerprint(Named({"ab", "c"})), fingerprint(Named({"a", "bc"})));
}

TEST(Fingerprint, AcceptsSeveralDirectoriesAndNoFiles) {
  EXPECT_NE(fingerprint(Named({"/a/x/1", "/b/2", "/a/x/3"})),
            fingerprint(Named({"/a/x/1", "/c/2", "/a/x/3"})));
  EXPECT_EQ(fingerprint(Named({})), fingerprint(Named({})));
  EXPECT_NE(fingerprint(Named({})), fingerprint(Named({"x"})));
}

// Saved states contain this number, so it must never change.
TEST(Fingerprint, IsTheSameOnEveryMachine) { EXPECT_EQ(fingerprint(kPets), 3507606406u); }

}  // namespace
}  // namespace millrace::data
