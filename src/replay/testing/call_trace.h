// CallTrace: a small trace, written call by call, for the tests of this module.
#pragma once

#include <fcntl.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interop/testing/sample_trace.h"
#include "replay/plan.h"

namespace millrace::replay {

// What a call was given and returned. Times advance by 100 ns from call to call.
struct Recorded {
  wire::Call call{};
  std::string_view file;
  uint64_t offset = wire::kNoOffset;
  uint64_t size = 0;
  int64_t result = 0;
  uint32_t detail = 0;
  std::string_view other_file = "";
  uint64_t other_offset = wire::kNoOffset;
  size_t thread = 0;      // numbers from 0; even ones belong to process 0, odd ones to process 1
  uint64_t begin_ns = 0;  // 0: after the previous call
  uint64_t duration_ns = 50;
};

class CallTrace {
 public:
  explicit CallTrace(const std::vector<Recorded>& calls) {
    trace::TraceWriter& writer = sample_.writer();
    const uint32_t session = writer.add_session({.host = "node1"});
    std::vector<trace::ProcessIndex> processes;
    for (uint32_t i = 0; i < 2; ++i) {
      processes.push_back(writer.add_process({.session = session,
                                              .pid = 100 + i,
                                              .parent_pid = 1,
                                              .rank = static_cast<int32_t>(i),
                                              .world_size = 2}));
    }
    std::vector<trace::ThreadIndex> threads;
    for (uint32_t i = 0; i < 4; ++i) {
      threads.push_back(writer.add_thread({.process = processes[i % 2], .tid = 1000 + i}));
    }
    std::vector<std::vector<interop::Event>> events(2);
    uint64_t now = 1000;
    for (const Recorded& call : calls) {
      now = call.begin_ns == 0 ? now + 100 : call.begin_ns;
      events[call.thread % 2].push_back({.begin_ns = now,
                                         .end_ns = now + call.duration_ns,
                                         .offset = call.offset,
                                         .size = call.size,
                                         .result = call.result,
                                         .other_offset = call.other_offset,
                                         .tags = {},
                                         .file = writer.add_name(call.file),
                                         .other_file = writer.add_name(call.other_file),
                                         .thread = threads[call.thread],
                                         .detail = call.detail,
                                         .call = call.call});
    }
    for (const auto& of_process : events) {
      if (!of_process.empty()) sample_.append(of_process);
    }
  }

  Plan plan(const PlanOptions& options = {}) {
    if (!trace_) trace_.emplace(sample_.open());
    auto plan = make_plan(*trace_, options);
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    return *std::move(plan);
  }

 private:
  interop::SampleTrace sample_;
  std::optional<trace::Trace> trace_;
};

}  // namespace millrace::replay
