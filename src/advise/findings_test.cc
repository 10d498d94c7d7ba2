#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/findings_json.h"
#include "advise/findings_text.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace millrace::advise {
namespace {

using testing::HasSubstr;

Finding sample() {
  Finding finding;
  finding.rule = "small-reads";
  finding.severity = Severity::kProblem;
  finding.kind = "small reads";
  finding.details = "16 KiB on average";
  finding.evidence = {
      {"97 % of 12,000 data reads are under 64 KiB; the mean is 16 KiB", "data_reads"},
      {"they took 32 s in total, and /data/\x1b[31mred\n.bin most of it", "files:/d"}};
  finding.threshold =
      "more than half of the reads under 64 KiB, for a reason that takes some words";
  finding.changes = {{"pytorch", "open(path, 'rb', buffering=1048576)"}, {"any", "think twice"}};
  finding.gain = {.saved_ns = 12'500'000'000, .share = 0.31, .how = "by a sum"};
  return finding;
}

Verdict yes() { return {.answer = Answer::kYes, .sentence = "yes: because of small reads"}; }

Finding other_way(std::string title, uint64_t saved_ns) {
  Finding finding;
  finding.rule = "many-small-files";
  finding.severity = Severity::kWarning;
  finding.kind = std::move(title);
  finding.changes = {{"any", "pack them"}};
  finding.gain = {.saved_ns = saved_ns, .share = static_cast<double>(saved_ns) / 40e9, .how = ""};
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
  const std::string text = findings_text(yes(), {sample()}, {.memory_bytes = 1}, {.columns = 80});
  EXPECT_TRUE(text.starts_with("yes: because of small reads\n\nproblem   small reads"));
  EXPECT_THAT(text, HasSubstr("problem   small reads: 16 KiB on average (small-reads)"));
  EXPECT_THAT(text, HasSubstr("  seen    97 % of 12,000 data reads"));
  EXPECT_THAT(text, HasSubstr("  pytorch open(path, 'rb', buffering=1048576)"));
  EXPECT_THAT(text, HasSubstr("  do      think twice"));
  EXPECT_THAT(text, HasSubstr("  gain    saves up to 12.5 s, 31.0 % of the wall time: by a sum"));
  EXPECT_THAT(text, HasSubstr("--local-disk"));
  EXPECT_THAT(text, testing::Not(HasSubstr("--memory")));
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 80u) << line;
}

TEST(FindingsText, IsSafeToPrint) {
  const std::string text = findings_text(yes(), {sample()}, {}, {.columns = 80});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("\\x1b"));
}

TEST(FindingsText, SaysThatNoProblemsWereFound) {
  const Machine known{
      .cores = 1, .memory_bytes = 1, .local_disk_bytes = 1, .data_storage = Storage::kLocal};
  EXPECT_EQ(findings_text({.sentence = "no: training does not wait"}, {}, known, {}),
            "no: training does not wait\nno problems found in this trace\n");
  EXPECT_EQ(findings_brief({}, 3, {}), "no problems found in this trace\n");
}

TEST(FindingsText, SaysWhyAGainCannotBeEstimated) {
  Finding finding = sample();
  finding.gain = {.how = "the file system decides"};
  EXPECT_THAT(findings_text(yes(), {finding}, {}, {}),
              HasSubstr("  gain    cannot be estimated: the file system decides\n"));
  finding.gain.how = "";
  EXPECT_THAT(findings_text(yes(), {finding}, {}, {}),
              HasSubstr("  gain    cannot be estimated\n"));
  finding.severity = Severity::kNote;
  finding.gain.how = "none now: this I/O overlaps with compute";
  EXPECT_THAT(findings_text(yes(), {finding}, {}, {}),
              HasSubstr("  gain    none now: this I/O overlaps with compute\n"));
}

TEST(FindingsText, OtherWaysFollowTheGain) {
  Finding finding = sample();
  finding.also = {other_way("many small files: 4,000", 8'000'000'000), other_way("a third way", 0)};
  EXPECT_THAT(
      findings_text(yes(), {finding}, {}, {.columns = 80}),
      HasSubstr("  do      think twice\n"
                "  gain    saves up to 12.5 s, 31.0 % of the wall time: by a sum\n"
                "  or      many small files: 4,000 (many-small-files): saves up to 8 s, 20.0 % of\n"
                "          the wall time\n"
                "  do      pack them\n"
                "  or      a third way (many-small-files): cannot be estimated\n"
                "  do      pack them\n"
                "  seen    97 %"));
}

TEST(FindingsText, AWayThatSavesMoreComesFirst) {
  Finding finding = sample();
  finding.also = {other_way("many small files", 20'000'000'000)};
  EXPECT_THAT(
      findings_text(yes(), {finding}, {}, {.columns = 80}),
      HasSubstr("problem   small reads: 16 KiB on average (small-reads)\n"
                "  first   many small files (many-small-files): saves up to 20 s, 50.0 % of "
                "the\n"
                "          wall time\n"
                "  do      pack them\n"
                "  or      small reads: 16 KiB on average (small-reads): saves up to 12.5 s,\n"
                "          31.0 % of the wall time: by a sum\n"
                "  pytorch open(path"));
}

TEST(FindingsBrief, HasTwoLinesEachAndCountsTheRest) {
  const std::string text = findings_brief({sample(), sample(), sample()}, 2, {.columns = 60});
  const auto lines = lines_of(text);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "problem   small reads: 16 KiB on average");
  EXPECT_EQ(lines[1], "          saves up to 12.5 s, 31.0 %: open(path, 'rb', bu...");
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 60u) << line;
  EXPECT_EQ(lines[4], "and 1 more: millrace advise");
}

TEST(FindingsBrief, NeverCutsTheSaving) {
  Finding finding = sample();
  finding.kind = "a title of so many words that it does not fit on a line of any usual terminal";
  finding.gain.saved_ns = 200'000'000'000;
  for (const size_t columns : {20u, 40u, 60u, 80u}) {
    const auto lines = lines_of(findings_brief({finding}, 1, {.columns = columns}));
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_THAT(lines[1], HasSubstr("saves up to 3 min 20 s, 31.0 %")) << columns;
    if (columns < 40) continue;
    for (const std::string& line : lines) EXPECT_LE(display_width(line), columns) << line;
  }
}

TEST(FindingsBrief, ShowsTheWayThatSavesMost) {
  Finding finding = sample();
  finding.also = {other_way("many small files: 4,000", 20'000'000'000)};
  const auto lines = lines_of(findings_brief({finding}, 1, {.columns = 80}));
  EXPECT_EQ(lines[0], "problem   small reads: 16 KiB on average");
  EXPECT_EQ(lines[1], "          saves up to 20 s, 50.0 %: pack them");
}

TEST(FindingsJson, CanBeReadBack) {
  Finding with_other = sample();
  with_other.also = {other_way("many small files", 1)};
  const Machine machine{.cores = 8, .memory_bytes = 42, .data_storage = Storage::kParallel};
  const auto document = parse_json(findings_json(yes(), {with_other}, machine), "advice");
  ASSERT_TRUE(document.ok()) << document.error().message();
  const Node& root = document->root;
  EXPECT_EQ(root.find("format")->text(), "millrace-advice");
  EXPECT_EQ(root.find("verdict")->find("answer")->text(), "yes");
  EXPECT_EQ(root.find("verdict")->find("sentence")->text(), "yes: because of small reads");
  EXPECT_EQ(root.find("machine")->find("cores")->text(), "8");
  EXPECT_EQ(root.find("machine")->find("memory_bytes")->text(), "42");
  EXPECT_EQ(root.find("machine")->find("local_disk_bytes"), nullptr);
  ASSERT_EQ(root.find("findings")->items().size(), 1u);
  const Node& finding = root.find("findings")->items()[0];
  EXPECT_EQ(finding.find("rule")->text(), "small-reads");
  EXPECT_EQ(finding.find("severity")->text(), "problem");
  EXPECT_EQ(finding.find("evidence")->items()[0].find("where")->text(), "data_reads");
  EXPECT_EQ(finding.find("changes")->items()[1].find("framework")->text(), "any");
  EXPECT_EQ(finding.find("gain")->find("saved_ns")->text(), "12500000000");
  ASSERT_EQ(finding.find("also")->items().size(), 1u);
  const Node& other = finding.find("also")->items()[0];
  EXPECT_EQ(other.find("title")->text(), "many small files");
  EXPECT_EQ(other.find("gain")->find("saved_ns")->text(), "1");
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
