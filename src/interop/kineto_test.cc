#include "interop/kineto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/io/temporary_directory.h"
#include "interop/interop.h"
#include "trace/trace.h"

namespace millrace::interop {
namespace {

using testing::HasSubstr;

// As PyTorch 2 writes it, shortened. The base of the times follows the events.
constexpr std::string_view kTrace = R"json({
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "a \"GPU\"", "totalGlobalMem": 150000000000}],
  "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 4},
  "displayTimeUnit": "ms",
  "traceEvents": [
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::to", "pid": 4711, "tid": 4711,
    "ts": 5.000, "dur": 9.5, "args": {"External id": 1}
  },
  {
    "ph": "X", "cat": "kernel", "name": "void gemm<float>(float\u0020const*)", "pid": 0, "tid": 7,
    "ts": 20.250, "dur": 10.125,
    "args": {"device": 1, "stream": 7, "grid": [1, 2, 3], "est. achieved occupancy %": 0}
  },
  {
    "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7,
    "ts": 10, "dur": 4, "args": {"device": 1, "stream": 20, "bytes": 1024}
  },
  {"ph": "s", "id": 1, "pid": 4711, "tid": 4711, "ts": 6, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "without a time", "pid": 0, "tid": 7},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset", "pid": 0, "tid": 7, "ts": 31, "dur": 0.5, "args": {}}
  ],
  "baseTimeNanoseconds": 1700000000000000000,
  "traceName": "profile.json"
})json";

TEST(Kineto, TakesWhatTheGpuDid) {
  const auto read = parse_kineto(kTrace);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->pid, 4711u);
  EXPECT_EQ(read->rank, 3);
  EXPECT_EQ(read->world_size, 4);
  EXPECT_EQ(read->other_events, 3u);
  ASSERT_EQ(read->events.size(), 3u);  // in the order of their ends
  const KinetoEvent& copy = read->events[0];
  EXPECT_TRUE(copy.is_copy);
  EXPECT_EQ(copy.wall_ns, 1700000000000010000u);
  EXPECT_EQ(copy.duration_ns, 4000u);
  EXPECT_EQ(copy.size_bytes, 1024u);
  const KinetoEvent& kernel = read->events[1];
  std::string storage;
  EXPECT_FALSE(kernel.is_copy);
  EXPECT_EQ(kernel.wall_ns, 1700000000000020250u);
  EXPECT_EQ(kernel.duration_ns, 10125u);
  EXPECT_EQ(kernel.device, 1u);
  EXPECT_EQ(kernel.stream, 7u);
  EXPECT_EQ(kernel.name.text(storage), "void gemm<float>(float const*)");
  EXPECT_EQ(read->events[2].duration_ns, 500u);
}

TEST(Kineto, AnOlderTraceHasTimesSince1970) {
  const auto read = parse_kineto(
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1700000000000000, "dur": 2}]})");
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->events.size(), 1u);
  EXPECT_EQ(read->events[0].wall_ns, 1700000000000000000u);
  EXPECT_EQ(read->rank, -1);
}

TEST(Kineto, RejectsOtherTexts) {
  EXPECT_THAT(parse_kineto("[]").error().message(), HasSubstr("does not begin with an object"));
  EXPECT_THAT(parse_kineto("").error().message(), HasSubstr("does not begin with an object"));
  EXPECT_THAT(parse_kineto("{}").error().message(), HasSubstr("no \"traceEvents\""));
}

TEST(Kineto, ACutTraceIsRejectedWithItsPlace) {
  for (size_t length = 1; length < kTrace.size(); ++length) {
    const auto read = parse_kineto(kTrace.substr(0, length));
    ASSERT_FALSE(read.ok()) << length;
    EXPECT_THAT(read.error().message(), HasSubstr("cut off")) << length;
  }
}

TEST(Kineto, TimesThatDoNotFitAreLeftOut) {
  const auto read = parse_kineto(
      R"({"baseTimeNanoseconds": 4611686018427387904, "traceEvents": [)"
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 18446744073709551615, "dur": 2},)"
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 18446744073709551},)"
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": -5, "dur": 1}]})");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->events.empty());
  EXPECT_EQ(read->other_events, 3u);
}

TEST(Kineto, ImportMakesRegionsOfTheProcess) {
  const auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const std::string file = (directory->path() / "profile.json").string();
  std::ofstream(file) << kTrace;
  const std::string packed = (directory->path() / "profile.mrt").string();
  const auto report = import_kineto({file}, packed, [](uint32_t pid) {
    return pid == 4711 ? std::string("node7") : std::string();
  });
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->event_count, 3u);
  const auto trace = trace::Trace::open(packed);
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  ASSERT_EQ(trace->processes().size(), 1u);
  EXPECT_EQ(trace->processes()[0].pid, 4711u);
  EXPECT_EQ(trace->processes()[0].parent_pid, 4711u);
  EXPECT_EQ(trace->processes()[0].rank, 3);
  EXPECT_EQ(trace->sessions()[0].host, "node7");
  trace::EventColumns columns;
  ASSERT_TRUE(trace->read_block(0, columns).ok());
  ASSERT_EQ(columns.size_events(), 3u);
  EXPECT_EQ(trace->name(columns.file[0]), "device_copy");
  EXPECT_EQ(trace->name(columns.file[1]), "device");
  EXPECT_EQ(columns.begin_ns[1] - columns.begin_ns[0], 10250u);
  EXPECT_EQ(columns.duration_ns[1], 10125u);
}

}  // namespace
}  // namespace millrace::interop
