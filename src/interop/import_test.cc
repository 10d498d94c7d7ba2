#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/io/file.h"
#include "interop/interop.h"
#include "interop/testing/sample_trace.h"

namespace millrace::interop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The result of importing these lines.
class Imported {
 public:
  explicit Imported(const std::string& text) : directory_(*TemporaryDirectory::create()) {
    const std::string in = (directory_.path() / "in.pfw").string();
    const std::string out = (directory_.path() / "out.mrt").string();
    std::ofstream(in) << text;
    auto imported = import_pfw({in}, out);
    EXPECT_TRUE(imported.ok()) << imported.error().message();
    report = *imported;
    auto opened = trace::Trace::open(out);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    trace.emplace(*std::move(opened));
    EXPECT_TRUE(visit_events(*trace, {}, [&](const Event& event) -> Status {
                  events.push_back(event);
                  tags.emplace_back(event.tags.begin(), event.tags.end());
                  return {};
                }).ok());
  }

  std::string name(size_t event) const { return std::string(trace->name(events[event].file)); }

  ImportReport report;
  std::optional<trace::Trace> trace;
  std::vector<Event> events;
  std::vector<std::vector<trace::RegionTag>> tags;  // of the events, because the columns are gone

 private:
  TemporaryDirectory directory_;
};

TEST(Import, ReadsTheOlderGeneration) {
  const Imported imported(
      "[\n"
      R"({"id":0,"name":"HH","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"hhash":12,"name":"n1","value":12}})"
      "\n"
      R"({"id":1,"name":"FH","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"hhash":12,"name":"/d/a","value":99}})"
      "\n"
      R"({"id":8,"name":"read","cat":"POSIX","pid":7,"tid":8,"ts":1700000000000005,"dur":3,"ph":"X","args":{"hhash":12,"ret":100,"count":4096,"fd":4,"fhash":99}})"
      "\n]\n");
  ASSERT_EQ(imported.events.size(), 1u);
  const Event& event = imported.events[0];
  EXPECT_EQ(event.call, wire::Call::kRead);
  EXPECT_EQ(imported.name(0), "/d/a");
  EXPECT_EQ(event.size, 4096u);
  EXPECT_EQ(event.result, 100);
  EXPECT_EQ(event.duration_ns(), 3000u);
  EXPECT_EQ(imported.trace->origin_wall_ns() + static_cast<int64_t>(event.begin_ns),
            1'700'000'000'000'005'000);
  EXPECT_EQ(imported.trace->sessions()[0].host, "n1");
  EXPECT_EQ(imported.trace->processes()[0].pid, 7u);
  EXPECT_EQ(imported.trace->threads()[0].tid, 8u);
  ASSERT_EQ(imported.tags[0].size(), 1u) << "fd has no column and is kept as a tag";
  EXPECT_EQ(imported.trace->name(imported.tags[0][0].key), "fd");
  EXPECT_THAT(imported.report.warnings, IsEmpty());
}

TEST(Import, ReadsTheNewerGenerationWithAHashDefinedLater) {
  const Imported imported(
      R"({"id":1,"name":"start","cat":"dftracer","type":1,"pid":5,"tid":5,"ts":1700000000000000,"dur":0,"ph":1,"args":{"hhash":"6882804a826580cd","ppid":4,"cmd_hash":"33329b9f912f57df"}})"
      "\n"
      R"({"id":2,"name":"fread","cat":"STDIO","type":3,"pid":5,"tid":5,"ts":1700000000000009,"dur":2,"ph":1,"args":{"hhash":"6882804a826580cd","ret":3,"count":5,"size":8,"fhash":"fff3bde19f8ec677"}})"
      "\n"
      R"({"name":"FH","cat":"dftracer","type":1,"pid":5,"tid":5,"ph":4,"args":{"hhash":"6882804a826580cd","name":"/late","value":"fff3bde19f8ec677"}})"
      "\n"
      R"({"name":"SH","cat":"dftracer","type":1,"pid":5,"tid":5,"ph":4,"args":{"hhash":"6882804a826580cd","name":"./prog","value":"33329b9f912f57df"}})"
      "\n");
  ASSERT_EQ(imported.events.size(), 1u);
  EXPECT_EQ(imported.name(0), "/late");
  EXPECT_EQ(imported.events[0].size, 40u) << "five items of eight bytes";
  EXPECT_EQ(imported.events[0].result, 24);
  const trace::Process& process = imported.trace->processes()[0];
  EXPECT_EQ(process.parent_pid, 4u);
  EXPECT_EQ(imported.trace->name(process.command_line), "./prog");
}

TEST(Import, KeepsUnknownCallsAsRegionsWithTheirCategory) {
  const Imported imported(
      R"({"id":2,"name":"forward","cat":"TORCH","pid":5,"tid":5,"ts":10,"dur":2,"ph":1,"args":{"epoch":3,"step":7,"loss":0.5}})"
      "\n");
  ASSERT_EQ(imported.events.size(), 1u);
  EXPECT_EQ(imported.events[0].call, wire::Call::kRegion);
  EXPECT_EQ(imported.name(0), "forward");
  EXPECT_EQ(imported.events[0].size, 3u);
  EXPECT_EQ(imported.events[0].offset, 7u);
  ASSERT_EQ(imported.tags[0].size(), 2u);
  EXPECT_EQ(imported.trace->name(static_cast<trace::NameIndex>(imported.tags[0][0].value)),
            "TORCH");
  EXPECT_EQ(imported.tags[0][1].kind, wire::TagKind::kNumber);
}

TEST(Import, UsesTheTimeUnitThatAFileDeclares) {
  const Imported imported(
      R"({"name":"CM","cat":"dftracer","ph":4,"pid":5,"tid":5,"args":{"name":"time_metric","value":"NS"}})"
      "\n"
      R"({"name":"read","cat":"POSIX","pid":5,"tid":5,"ts":1700000000000000001,"dur":250,"ph":1,"args":{}})"
      "\n");
  ASSERT_EQ(imported.events.size(), 1u);
  EXPECT_EQ(imported.events[0].duration_ns(), 250u);
  EXPECT_EQ(imported.trace->origin_wall_ns(), 1'700'000'000'000'000'001);
}

TEST(Import, SaysWhereATruncatedFileEndsAndKeepsEverythingBefore) {
  const Imported imported(
      R"({"name":"read","cat":"POSIX","pid":5,"tid":5,"ts":10,"dur":2,"ph":1,"args":{}})"
      "\n"
      R"({"name":"read","cat":"POSIX","pid":5,"ti)");
  EXPECT_EQ(imported.events.size(), 1u);
  EXPECT_THAT(imported.report.warnings,
              ElementsAre(HasSubstr("in.pfw:2: the last line is cut off")));
}

TEST(Import, ReportsInvalidLinesAndContinues) {
  const Imported imported(
      "{\"name\":}\n"
      "{\"name\":\"read\",\t\"cat\":\"POSIX\",\"pid\":5,\"tid\":5,\"ts\":10,\"dur\":2,\"ph\":1}\n"
      "no json\n");
  EXPECT_EQ(imported.events.size(), 1u) << "a line with a tab goes through the general parser";
  ASSERT_EQ(imported.report.warnings.size(), 1u);
  EXPECT_THAT(imported.report.warnings[0], HasSubstr("in.pfw:1: "));
  EXPECT_THAT(imported.report.warnings[0], HasSubstr("2 such lines were skipped"));
}

TEST(Import, ReadsAgainIfAnEventBeganBeforeTheFirstOfItsFile) {
  std::string text;
  for (int i = 0; i < 60'000; ++i) {  // more than one run of lines
    text += fmt::format(
        R"({{"name":"read","cat":"POSIX","pid":5,"tid":5,"ts":{},"dur":1,"ph":1,"args":{{"hhash":"6882804a826580cd"}}}})"
        "\n",
        1'000'000 + i);
  }
  text +=
      R"({"name":"epoch","cat":"app","pid":5,"tid":5,"ts":5,"dur":2000000,"ph":1,"args":{"hhash":"6882804a826580cd"}})";
  const Imported imported(text);
  EXPECT_EQ(imported.events.size(), 60'001u);
  EXPECT_EQ(imported.trace->origin_wall_ns(), 5000);
}

TEST(Import, WarnsIfAFileHashIsNeverDefined) {
  const Imported imported(
      R"({"name":"read","cat":"POSIX","pid":5,"tid":5,"ts":10,"dur":2,"ph":1,"args":{"fhash":"00000000000000ab"}})"
      "\n");
  EXPECT_EQ(imported.name(0), "hash 00000000000000ab");
  EXPECT_THAT(imported.report.warnings, ElementsAre(HasSubstr("no line defines their hash")));
}

TEST(Import, ReadsTheGoldenFilesOfBothGenerations) {
  TemporaryDirectory directory = *TemporaryDirectory::create();
  const std::string out = (directory.path() / "out.mrt").string();
  const auto older = import_pfw({"tests/golden/dftracer_1.pfw"}, out);
  ASSERT_TRUE(older.ok()) << older.error().message();
  EXPECT_EQ(older->event_count, 9u);
  EXPECT_THAT(older->warnings, IsEmpty());
  const auto newer = import_pfw({"tests/golden/dftracer_2.pfw", "tests/golden/dftracer_2_fork.pfw"},
                                (directory.path() / "newer.mrt").string());
  ASSERT_TRUE(newer.ok()) << newer.error().message();
  EXPECT_EQ(newer->event_count, 20u);
  EXPECT_EQ(newer->process_count, 2u);
  EXPECT_THAT(newer->warnings, IsEmpty());
}

class RoundTrip : public testing::TestWithParam<uint64_t> {};

TEST_P(RoundTrip, ThroughPfwKeepsEveryEventAndColumn) {
  SampleTrace sample;
  add_random_events(sample, GetParam(), 400);
  const trace::Trace before = sample.open();
  const std::string pfw = sample.path("t.pfw");
  const auto exported = export_trace(before, "pfw", {}, pfw);
  ASSERT_TRUE(exported.ok()) << exported.error().message();
  EXPECT_EQ(exported->event_count, before.event_count());

  const auto imported = import_pfw({pfw}, sample.path("again.mrt"));
  ASSERT_TRUE(imported.ok()) << imported.error().message();
  EXPECT_THAT(imported->warnings, IsEmpty());
  const auto after = trace::Trace::open(sample.path("again.mrt"));
  ASSERT_TRUE(after.ok()) << after.error().message();
  const auto expected = all_events(before);
  const auto found = all_events(*after);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[i], expected[i]) << "event " << i;
  EXPECT_EQ(after->processes().size(), before.processes().size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RoundTrip, testing::Range<uint64_t>(1, 13));

}  // namespace
}  // namespace millrace::interop
