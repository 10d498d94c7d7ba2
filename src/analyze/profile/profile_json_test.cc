#include "analyze/profile/profile_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>

#include "analyze/profile/profile_read.h"
#include "base/bytes.h"
#include "base/io/atomic_file.h"
#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"

namespace millrace::analyze {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Gives each number and each text of a Profile a different value, and each list two items.
class Filler {
 public:
  template <typename T>
  void operator()(const Field&, T& out) {
    fill(out);
  }

 private:
  void fill(bool& out) { out = ++next_ % 2 == 0; }
  void fill(std::string& out) { out = "text \"" + std::to_string(++next_) + "\"\n"; }
  void fill(LogHistogram& out) {
    out.add(0, ++next_);
    out.add(1000, ++next_);
  }
  template <typename T>
  void fill(std::vector<T>& out) {
    for (int i = 0; i < 2; ++i) fill(out.emplace_back());
  }
  template <typename T>
  void fill(T& out) {
    if constexpr (std::is_enum_v<T>) {
      out = static_cast<T>(++next_ % names_of(T{}).size());
    } else if constexpr (std::is_floating_point_v<T>) {
      out = static_cast<double>(++next_) + 0.1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      out = static_cast<T>(++next_);
    } else {
      visit_fields(*this, out);
    }
  }

  size_t next_ = 0;
};

Profile full_profile() {
  Profile profile;
  Filler fill;
  visit_fields(fill, profile);
  for (TreeNode& node : profile.tree) node.parent = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    profile.stretches[i].rank = i;
    profile.steps.slowest[i].rank = i;
    profile.steps.all[i].rank = i;
  }
  return profile;
}

Result<Profile> parse(const std::string& text) { return parse_profile(text, "p.json"); }

std::string complaint(const std::string& text) {
  const auto profile = parse(text);
  return profile.ok() ? "" : profile.error().message();
}

std::string with_job(const std::string& members) {
  return R"({"format": "millrace-report", "version": 1, "job": {)" + members + "}}";
}

std::string with(const std::string& members) {
  return R"({"format": "millrace-report", "version": 1, "job": {}, )" + members + "}";
}

TEST(ProfileJson, AWrittenProfileReadsBackUnchanged) {
  const std::string text = profile_json(full_profile());
  const auto read = parse(text);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(profile_json(*read), text);
  EXPECT_EQ(read->job.traces, full_profile().job.traces);
  EXPECT_EQ(read->functions[1].size_bins, full_profile().functions[1].size_bins);
}

TEST(ProfileJson, AnEmptyProfileReadsBackAsEmpty) {
  const std::string text = profile_json(Profile());
  const auto read = parse(text);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(profile_json(*read), text);
}

TEST(ProfileJson, CountsAreOnOneLineWithoutEmptyBinsAtTheEnd) {
  Profile profile;
  profile.reads.sizes.add(1, 7);
  profile.reads.sizes.add(5, 9);
  profile.timeline.bytes_read = {1, 2, 3};
  const std::string text = profile_json(profile);
  EXPECT_THAT(text, HasSubstr("\"sizes\": [0, 7, 0, 9],\n"));
  EXPECT_THAT(text, HasSubstr("\"bytes_read\": [1, 2, 3],\n"));
}

TEST(ProfileJson, AnUnusedFileHasNoFirstUse) {
  Profile profile;
  profile.kinds.resize(2);
  profile.kinds[1].io.first_ns = 5;
  const std::string text = profile_json(profile);
  EXPECT_THAT(text, HasSubstr("\"first_ns\": null, \"last_ns\": 0}"));
  const auto read = parse(text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->kinds[0].io.first_ns, ~uint64_t{0});
  EXPECT_EQ(read->kinds[1].io.first_ns, 5u);
}

TEST(ProfileJson, CallersMayAddMembersBesideTheProfile) {
  JsonWriter json;
  json.begin_object();
  write_profile(json, full_profile());
  json.key("findings");
  json.begin_list();
  json.value("something");
  json.end_list();
  json.end_object();
  const auto read = parse(std::move(json).finish());
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(profile_json(*read), profile_json(full_profile()));
}

TEST(ProfileRead, TheGoldenProfileReadsAsItWasWritten) {
  const auto profile = read_profile("tests/golden/profile.json");
  ASSERT_TRUE(profile.ok()) << profile.error().message();
  EXPECT_EQ(profile->job.framework, "pytorch");
  EXPECT_EQ(profile->job.begin_wall_ns, 1'700'000'000'000'000'000);
  EXPECT_EQ(profile->time.basis, WaitBasis::kRegions);
  EXPECT_EQ(profile->time.ranks[1].name, "rank 1");
  EXPECT_EQ(profile->time.mean.wait_share, 0.15);
  ASSERT_EQ(profile->functions.size(), 3u);
  EXPECT_EQ(profile->functions[0].role, Role::kCompute);
  EXPECT_EQ(profile->functions[1].kind, wire::CallKind::kRead);
  EXPECT_EQ(profile->functions[1].size_bins.bins()[LogHistogram::bin_of(100'000)], 15'000u);
  EXPECT_EQ(profile->functions[1].latency_ns.p99, 5'000'000u);
  EXPECT_EQ(profile->ranks[0].calls_in_flight, 1.5);
  EXPECT_EQ(profile->heat.ranks[1].compute, std::vector<uint16_t>{750});
  EXPECT_EQ(profile->stretches[1].epoch, 1);
  EXPECT_EQ(profile->epochs[1].actions[0].mean_ns, 7'500'000'000u);
  EXPECT_EQ(profile->tree[1].layer, Layer::kPosix);
  EXPECT_EQ(profile->checkpoints[0].file, "c.pt");
}

// Older profiles have one share of waiting, which was that of the steps if they were known.
TEST(ProfileRead, TheShareOfWaitingIsOfTheWallTime) {
  const auto read = parse(with(
      R"("time": {"mean": {"wall_ns": 100, "wait_ns": 25, "step_ns": 50, "wait_share": 0.5}})"));
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->time.mean.wait_share, 0.25);
  EXPECT_EQ(read->time.mean.step_wait_share, 0.5);
}

TEST(ProfileRead, UnknownKeysAreSkippedAndMissingOnesLeaveTheirMemberEmpty) {
  const auto read = parse(with_job(R"("ranks": 4, "phase_of_moon": {"full": [true]})"));
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->job.ranks, 4u);
  EXPECT_EQ(read->job.wall_ns, 0u);
}

TEST(ProfileRead, OtherFormatsAndVersionsAreRejectedWithASentence) {
  EXPECT_EQ(complaint("[]"),
            "p.json: not a saved profile (\"format\" is not \"millrace-report\"); create one with "
            "`millrace report --json`");
  EXPECT_THAT(complaint(R"({"format": "millrace-info", "version": 1})"),
              HasSubstr("not a saved profile"));
  EXPECT_EQ(complaint(R"({"format": "millrace-report", "version": 2, "job": {}})"),
            "p.json: profile of version 2; this build reads version 1. Upgrade, or create it again "
            "from the trace");
  EXPECT_EQ(complaint(R"({"format": "millrace-report", "version": "one", "job": {}})"),
            "p.json:1: \"version\" is missing or not a positive whole number");
  EXPECT_EQ(complaint(R"({"format": "millrace-report", "job": {}})"),
            "p.json:1: \"version\" is missing or not a positive whole number");
  EXPECT_EQ(complaint(R"({"format": "millrace-report", "version": 1, "scaling": []})"),
            "p.json: no \"job\": this is not the report of a single job");
}

TEST(ProfileRead, WrongTypesAreReportedWithTheirPlace) {
  EXPECT_EQ(complaint(with_job("\n\"ranks\": \"four\"")),
            "p.json:2: job.ranks: expected a whole number that is not negative, found the string "
            "'four'");
  EXPECT_EQ(complaint(with_job(R"("ranks": 4294967296)")),
            "p.json:1: job.ranks: 4294967296 is more than the maximum of 4294967295");
  EXPECT_THAT(complaint(with_job(R"("wall_ns": -1)")), HasSubstr("job.wall_ns: expected a whole"));
  EXPECT_THAT(complaint(with_job(R"("wall_ns": 1.5)")), HasSubstr("job.wall_ns: expected a whole"));
  EXPECT_THAT(complaint(with_job(R"("amplification": 1e999)")), HasSubstr("job.amplification"));
  EXPECT_THAT(complaint(with_job(R"("hosts": "a")")),
              HasSubstr("job.hosts: expected a list, found the string 'a'"));
  EXPECT_THAT(complaint(with_job(R"("hosts": ["a", 1])")),
              HasSubstr("job.hosts[1]: expected a string"));
  EXPECT_THAT(complaint(with(R"("time": [])")),
              HasSubstr("time: expected an object, found a list"));
  EXPECT_THAT(complaint(with(R"("functions": [{}, {"layer": "cellar"}])")),
              HasSubstr("functions[1].layer: unknown value 'cellar'"));
  EXPECT_THAT(complaint(with(R"("heat": {"ranks": [{"io": [65536]}]})")),
              HasSubstr("heat.ranks[0].io: 65536 is more than the maximum of 65535"));
}

TEST(ProfileRead, InconsistentLengthsAndIndicesAreRejected) {
  std::string counts = "0";
  for (int i = 0; i < 65; ++i) counts += ",0";
  EXPECT_THAT(complaint(with(R"("reads": {"sizes": [)" + counts + "]}")),
              HasSubstr("reads.sizes: a histogram has at most 65 counts, but this one has 66"));
  EXPECT_EQ(complaint(with(R"("tree": [{}, {"parent": 1}])")),
            "p.json: tree[1].parent: node 1 does not come before it");
  EXPECT_EQ(complaint(with(R"("tree": [{"parent": 1}])")),
            "p.json: tree[0].parent: node 1 does not come before it");
  EXPECT_EQ(complaint(with(R"("timeline": {"bytes_read": [1], "operations": [1, 2]})")),
            "p.json: timeline: the lists differ in length");
  EXPECT_EQ(complaint(with(R"("heat": {"ranks": [{"io": [1], "compute": [1], "wait": []}]})")),
            "p.json: heat.ranks: the lists differ in length");
  EXPECT_EQ(complaint(with(R"("stretches": [{"rank": 3}])")),
            "p.json: stretches[0].rank: 3 is not below the number of ranks, 0");
  EXPECT_EQ(complaint(with(R"("steps": {"slowest": [{"rank": 0}]})")),
            "p.json: steps.slowest[0].rank: 0 is not below the number of ranks, 0");
  EXPECT_EQ(complaint(with(R"("time": {"ranks": [{}]}, "steps": {"all": [{}, {"rank": 1}]})")),
            "p.json: steps.all[1].rank: 1 is not below the number of ranks, 1");
}

TEST(ProfileRead, FlippedBitsAndTruncationDoNoHarm) {
  const auto golden = read_file("tests/golden/profile.json");
  ASSERT_TRUE(golden.ok()) << golden.error().message();
  const std::string& text = *golden;
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string flipped = text;
    char& at = flipped[random.below(text.size())];
    at = static_cast<char>(at ^ (1 << random.below(8)));
    const auto read = parse(flipped);
    if (!read.ok()) {
      EXPECT_THAT(read.error().message(), StartsWith("p.json:"));
      continue;
    }
    const auto again = parse(profile_json(*read));
    ASSERT_TRUE(again.ok()) << again.error().message();
  }
  for (size_t size = 0; size + 2 < text.size(); size += 1 + text.size() / 200) {
    EXPECT_THAT(complaint(text.substr(0, size)), StartsWith("p.json:"));
  }
}

TEST(ProfileRead, EveryErrorNamesTheFile) {
  const auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const std::string text = profile_json(full_profile());
  const std::string path = directory->path() / "p.json";
  ASSERT_TRUE(write_file_atomically(path, bytes_of(text)).ok());
  const auto read = read_profile(path);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(profile_json(*read), text);
  const auto missing = read_profile(path + "x");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message(), StartsWith(path + "x: "));
}

}  // namespace
}  // namespace millrace::analyze
