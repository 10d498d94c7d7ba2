#include "watch/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/json.h"
#include "base/text/text.h"

namespace millrace::watch {
namespace {

using testing::HasSubstr;
using testing::Not;

Snapshot busy_snapshot() {
  Snapshot snapshot;
  snapshot.state = JobState::kRunning;
  snapshot.window_ns = 2'000'000'000;
  snapshot.elapsed_ns = 133'700'000'000;
  snapshot.hosts = 2;
  snapshot.processes = 18;
  snapshot.ranks = 2;
  snapshot.world_size = 8;
  snapshot.window.reads = {.count = 24'000,
                           .bytes = 2'920'000'000,
                           .duration_ns = 24'000 * 12'000,
                           .duration_max_ns = 1'300'000};
  snapshot.window.metadata = {
      .count = 10, .bytes = 0, .duration_ns = 10'000, .duration_max_ns = 2'000};
  snapshot.total = snapshot.window;
  snapshot.concurrency = 1.44;
  snapshot.waiting_by = WaitingBy::kRegions;
  snapshot.waiting_share = 0.34;
  Worker worker;
  worker.rank = 3;
  worker.pid = 4242;
  worker.host = "node-with-a-long-name.cluster.example.org";
  worker.command = "python3 train.py --batch-size 64 --epochs 100 --data /datasets/imagenet";
  worker.operations = snapshot.window;
  worker.busy_ns = 288'000'000;
  worker.waiting_by = WaitingBy::kRegions;
  worker.waiting_share = 0.34;
  worker.has_epoch = true;
  worker.epoch = 2;
  worker.has_step = true;
  worker.step = 117;
  snapshot.workers = {worker};
  snapshot.workers_more = 7;
  snapshot.files = {
      {.path = "/datasets/imagenet/a/very/long/path/that/does/not/fit/train/00001.tfrecord",
       .count = 24'000,
       .read_bytes = 2'920'000'000,
       .written_bytes = 0,
       .busy_ns = 288'000'000}};
  return snapshot;
}

TEST(SnapshotText, FitsEightyColumns) {
  const std::string text = snapshot_text(busy_snapshot(), std::string(200, 'd'), Terminal{});
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(display_width(text.substr(at, end - at)), 80u) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(SnapshotText, ShowsRatesAndProgress) {
  const std::string text = snapshot_text(busy_snapshot(), "t", Terminal{});
  EXPECT_THAT(text, HasSubstr("t: started 2 min 13 s ago, showing the last 2 s\n"));
  EXPECT_THAT(text, HasSubstr("2 hosts, 18 processes, 2 of 8 ranks; no events lost\n"));
  EXPECT_THAT(text, HasSubstr("1.46 GB/s"));
  EXPECT_THAT(text, HasSubstr("1.44 calls at a time"));
  EXPECT_THAT(text, HasSubstr("waiting for data 34.0 % of the time (regions batch_wait, fetch)"));
  EXPECT_THAT(text, HasSubstr("00001.tfrecord"));
  EXPECT_THAT(text, HasSubstr("and 7 more"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(SnapshotText, ShowsTimeInIoWithoutRegions) {
  Snapshot snapshot = busy_snapshot();
  snapshot.waiting_by = WaitingBy::kIo;
  EXPECT_THAT(snapshot_text(snapshot, "t", Terminal{}),
              HasSubstr("in I/O 34.0 % of the time (any thread of the main process)"));
  snapshot.waiting_by = WaitingBy::kNothing;
  EXPECT_THAT(snapshot_text(snapshot, "t", Terminal{}), Not(HasSubstr("of the time")));
}

TEST(SnapshotText, ShowsLossesInRedIfTheTerminalHasColours) {
  Snapshot snapshot = busy_snapshot();
  snapshot.lost_events = 1200;
  Terminal terminal;
  EXPECT_THAT(snapshot_text(snapshot, "t", terminal), HasSubstr("; 1,200 events lost\n"));
  terminal.color = true;
  EXPECT_THAT(snapshot_text(snapshot, "t", terminal), HasSubstr("\x1b[31m1,200 events lost"));
}

TEST(SnapshotText, EscapesControlCharactersInFileNames) {
  Snapshot snapshot = busy_snapshot();
  snapshot.files[0].path = "a\x1b[2Jb";
  snapshot.workers[0].command = "x\x1b]0;title\x07";
  EXPECT_THAT(snapshot_text(snapshot, "d\x1b[1m", Terminal{}), Not(HasSubstr("\x1b")));
}

TEST(SnapshotText, AnEmptyWindowHasNoRates) {
  EXPECT_THAT(snapshot_text(Snapshot{}, "t", Terminal{}), Not(HasSubstr("nan")));
}

TEST(SnapshotJson, MatchesTheDocumentation) {
  const auto parsed = parse_json(snapshot_json(busy_snapshot(), "t"), "top");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const std::string text = snapshot_json(busy_snapshot(), "t");
  EXPECT_THAT(text, HasSubstr("\"format\": \"millrace-top\""));
  EXPECT_THAT(text, HasSubstr("\"state\": \"running\""));
  EXPECT_THAT(text, HasSubstr("\"bytes\": 2920000000"));
  EXPECT_THAT(text, HasSubstr("\"by\": \"regions\""));
  EXPECT_THAT(text, HasSubstr("\"workers_left_out\": 7"));
}

TEST(SnapshotJson, UnknownValuesAreNull) {
  const std::string text = snapshot_json(Snapshot{}, "t");
  EXPECT_THAT(text, HasSubstr("\"state\": \"waiting\""));
  EXPECT_THAT(text, HasSubstr("\"world_size\": null"));
  EXPECT_THAT(text, HasSubstr("\"by\": null"));
}

}  // namespace
}  // namespace millrace::watch
