// Tests the exports as files. tests/interop/exports_test.py checks the contents of Perfetto traces
// with a decoder that shares nothing with the writer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io/file.h"
#include "base/text/json.h"
#include "interop/interop.h"
#include "interop/testing/sample_trace.h"

namespace millrace::interop {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class ExportTest : public testing::Test {
 protected:
  std::string exported(const std::string& format, const std::string& name,
                       const Selection& selection = {}) {
    const trace::Trace trace = sample_.open();
    const auto report = export_trace(trace, format, selection, sample_.path(name));
    EXPECT_TRUE(report.ok()) << report.error().message();
    if (!report.ok()) return "";
    report_ = *report;
    const auto text = read_file(sample_.path(name));
    EXPECT_TRUE(text.ok());
    EXPECT_EQ(report->size_bytes, text->size());
    return *text;
  }

  // One thread with a region around a failed open.
  void add_two_events() {
    trace::TraceWriter& writer = sample_.writer();
    const uint32_t session = writer.add_session({.host = "node,7"});
    const auto thread = sample_.add_thread(
        {.session = session, .pid = 42, .rank = 3, .command_line = writer.add_name("python t.py")},
        43);
    const std::vector<trace::RegionTag> tags = {
        {.key = writer.add_name("batch"), .kind = wire::TagKind::kInteger, .value = 8}};
    sample_.append({{.begin_ns = 1100,
                     .end_ns = 1350,
                     .offset = wire::kNoOffset,
                     .result = -1,
                     .file = writer.add_name("/a \"b\",\n\xff"),
                     .thread = thread,
                     .detail = 2,
                     .call = wire::Call::kOpen,
                     .error = 2},
                    {.begin_ns = 1000,
                     .end_ns = 2000,
                     .offset = 9,
                     .size = 1,
                     .tags = tags,
                     .file = writer.add_name("fetch"),
                     .thread = thread,
                     .call = wire::Call::kRegion}});
  }

  SampleTrace sample_;
  ExportReport report_;
};

TEST_F(ExportTest, CsvHasEveryColumnAndQuotesIfNeeded) {
  add_two_events();
  EXPECT_EQ(
      exported("csv", "t.csv"),
      "begin_ns,duration_ns,level,call,name,file,offset,size,result,errno,pid,tid,rank,host,"
      "epoch,step,other_file,other_offset,detail,estimate,tags\r\n"
      "1100,250,posix,open,open,\"/a \"\"b\"\",\n\\xff\",,0,-1,ENOENT,42,43,3,\"node,7\",,,,,2,"
      "0,\r\n"
      "1000,1000,app,region,fetch,,,,0,,42,43,3,\"node,7\",1,9,,,0,0,\"{\"\"batch\"\":8}\"\r\n");
  EXPECT_EQ(report_.event_count, 2u);
}

TEST_F(ExportTest, ChromeIsJsonWithOneEventPerLine) {
  add_two_events();
  const std::string text = exported("chrome", "t.json");
  const auto document = parse_json(text, "t.json");
  ASSERT_TRUE(document.ok()) << document.error().message();
  const Node* events = document->root.find("traceEvents");
  ASSERT_NE(events, nullptr);
  ASSERT_EQ(events->items().size(), 6u) << "three metadata, two events, the start";
  EXPECT_THAT(text, HasSubstr("rank 3 python t.py (node,7) pid 42"));
  const Node& open = events->items()[3];
  EXPECT_EQ(open.find("ph")->text(), "X");
  EXPECT_EQ(open.find("ts")->text(), "0.100");
  EXPECT_EQ(open.find("dur")->text(), "0.250");
  EXPECT_EQ(open.find("args")->find("errno")->text(), "ENOENT");
  EXPECT_EQ(events->items()[4].find("args")->find("tags")->find("batch")->text(), "8");
}

TEST_F(ExportTest, ChromeIsValidJsonWithoutEvents) {
  EXPECT_TRUE(parse_json(exported("chrome", "t.json"), "t").ok());
}

TEST_F(ExportTest, EveryExporterHandlesAllKindsOfEvents) {
  add_random_events(sample_, 77, 500);
  const trace::Trace trace = sample_.open();
  for (const Exporter& exporter : exporters()) {
    const std::string path = sample_.path("any" + std::string(exporter.ending));
    const auto report = export_trace(trace, exporter.name, {}, path);
    ASSERT_TRUE(report.ok()) << exporter.name << ": " << report.error().message();
    EXPECT_EQ(report->event_count, trace.event_count()) << exporter.name;
    EXPECT_GT(report->size_bytes, 10'000u) << exporter.name;
  }
}

TEST_F(ExportTest, PerfettoOutputDoesNotDependOnTheWindows) {
  trace::TraceWriter& writer = sample_.writer();
  const uint32_t session = writer.add_session({.host = "h"});
  const auto thread = sample_.add_thread({.session = session, .pid = 1}, 1);
  const auto file = writer.add_name("/f");
  for (uint64_t block = 0; block < 20; ++block) {
    std::vector<Event> events;
    for (uint64_t i = 0; i < 50; ++i) {
      const uint64_t begin_ns = block * 1000 + i * 20;
      events.push_back({.begin_ns = begin_ns,
                        .end_ns = begin_ns + 10 + i % 2 * 15,
                        .file = file,
                        .thread = thread,
                        .call = wire::Call::kRead});
    }
    // Around everything so far, as an epoch ends with its last call.
    events.push_back({.begin_ns = 0,
                      .end_ns = (block + 1) * 1000 + 30,
                      .file = file,
                      .thread = thread,
                      .call = wire::Call::kRegion});
    sample_.append(events);
  }
  const trace::Trace trace = sample_.open();
  ASSERT_EQ(trace.blocks().size(), 20u);
  std::vector<std::string> written;
  for (const uint64_t window_events : {uint64_t{1} << 40, uint64_t{100}, uint64_t{1}}) {
    const std::string path = sample_.path("t" + std::to_string(window_events));
    auto sink = Sink::create(path);
    ASSERT_TRUE(sink.ok());
    ExportReport report;
    ASSERT_TRUE(export_perfetto_in_windows(trace, {}, *sink, report, window_events).ok());
    ASSERT_TRUE(sink->finish().ok());
    EXPECT_EQ(report.event_count, 20u * 51);
    written.push_back(*read_file(path));
  }
  // With one thread, not only the slices are the same, but also the bytes.
  EXPECT_TRUE(written[0] == written[1]);
  EXPECT_TRUE(written[0] == written[2]);
}

TEST_F(ExportTest, RejectsANameThatDFTracersToolsWouldIgnore) {
  const trace::Trace trace = sample_.open();
  const auto report = export_trace(trace, "pfw", {}, sample_.path("t.json"));
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("end in .pfw or .pfw.gz"));
}

TEST_F(ExportTest, ListsTheKnownFormats) {
  const trace::Trace trace = sample_.open();
  const auto report = export_trace(trace, "otf2", {}, sample_.path("t"));
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("perfetto, pfw, chrome, csv"));
}

TEST_F(ExportTest, WarnsOfLostEvents) {
  add_two_events();
  sample_.writer().add_loss({.events = 1234});
  exported("csv", "t.csv");
  ASSERT_EQ(report_.warnings.size(), 1u);
  EXPECT_THAT(report_.warnings[0], StartsWith("1,234 events were lost"));
}

TEST_F(ExportTest, LeavesNoFileOnFailure) {
  const trace::Trace trace = sample_.open();
  EXPECT_FALSE(export_trace(trace, "csv", {}, sample_.path("absent/t.csv")).ok());
}

}  // namespace
}  // namespace millrace::interop
