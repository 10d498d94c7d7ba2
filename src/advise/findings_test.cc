#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/findings_json.h"
#include "advise/findings_text.h"
#include "base/json.h"
#include "base/text.h"

namespace millrace::advise {
namespace {

using testing::HasSubstr;

Finding sample() {
  Finding finding;
  finding.rule = "small-reads";
  finding.severity = Severity::kProblem;
  finding.title = "small reads: 16 KiB on average";
  finding.evidence = {
      {"97 % of 12,000 data reads are under 64 KiB; the mean is 16 KiB", "data_reads"},
      {"they took 32 s in total, and /data/\x1b[31mred\n.bin most of it", "files:/d"}};
  finding.threshold =
      "more than half of the reads under 64 KiB, for a reason that takes some words";
  finding.changes = {{"pytorch", "open(path, 'rb', buffering=1048576)"}, {"any", "think twice"}};
  finding.gain = {.saved_ns = 12'500'000'000, .share = 0.31, .how = "by a sum"};
  return finding;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  EXPECT_EQ(begin, text.size()) << "the last line ends";
  return lines;
}

TEST(FindingsText, HasEverythingWithinEightyColumns) {
  const std::string text = findings_text({sample()}, {.memory_bytes = 1}, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("problem   small reads: 16 KiB on average (small-reads)"));
  EXPECT_THAT(text, HasSubstr("  seen    97 % of 12,000 data reads"));
  EXPECT_THAT(text, HasSubstr("  pytorch open(path, 'rb', buffering=1048576)"));
  EXPECT_THAT(text, HasSubstr("  do      think twice"));
  EXPECT_THAT(text, HasSubstr("  gain    up to 12.5 s, 31.0 % of the wall time: by a sum"));
  EXPECT_THAT(text, HasSubstr("--local-disk"));
  EXPECT_THAT(text, testing::Not(HasSubstr("--memory")));
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 80u) << line;
}

TEST(FindingsText, IsSafeToPrint) {
  const std::string text = findings_text({sample()}, {}, {.columns = 80});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("\\x1b"));
}

TEST(FindingsText, SaysThatNoProblemsWereFound) {
  const Machine known{.memory_bytes = 1, .local_disk_bytes = 1, .data_storage = Storage::kLocal};
  EXPECT_EQ(findings_text({}, known, {}), "no problems found in this trace\n");
  EXPECT_EQ(findings_brief({}, 3, {}), "no problems found in this trace\n");
}

TEST(FindingsBrief, HasTwoLinesEachAndCountsTheRest) {
  const std::string text = findings_brief({sample(), sample(), sample()}, 2, {.columns = 60});
  const auto lines = lines_of(text);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1], "          open(path, 'rb', buffering=1048576)");
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 60u) << line;
  EXPECT_EQ(lines[4], "and 1 more: millrace advise");
}

TEST(FindingsJson, CanBeReadBack) {
  const Machine machine{.memory_bytes = 42, .data_storage = Storage::kParallel};
  const auto document = parse_json(findings_json({sample()}, machine), "advice");
  ASSERT_TRUE(document.ok()) << document.error().message();
  const Node& root = document->root;
  EXPECT_EQ(root.find("format")->text(), "millrace-advice");
  EXPECT_EQ(root.find("machine")->find("memory_bytes")->text(), "42");
  EXPECT_EQ(root.find("machine")->find("local_disk_bytes"), nullptr);
  ASSERT_EQ(root.find("findings")->items().size(), 1u);
  const Node& finding = root.find("findings")->items()[0];
  EXPECT_EQ(finding.find("rule")->text(), "small-reads");
  EXPECT_EQ(finding.find("severity")->text(), "problem");
  EXPECT_EQ(finding.find("evidence")->items()[0].find("where")->text(), "data_reads");
  EXPECT_EQ(finding.find("changes")->items()[1].find("framework")->text(), "any");
  EXPECT_EQ(finding.find("gain")->find("saved_ns")->text(), "12500000000");
}

TEST(RulesText, ListsEveryRuleWithinEightyColumns) {
  const auto lines = lines_of(rules_text({.columns = 80}));
  EXPECT_EQ(lines.size(), rules().size() + 1);
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 80u) << line;
}

TEST(RulesJson, ListsEveryRule) {
  const auto document = parse_json(rules_json(), "rules");
  ASSERT_TRUE(document.ok()) << document.error().message();
  EXPECT_EQ(document->root.find("rules")->items().size(), rules().size());
}

}  // namespace
}  // namespace millrace::advise
