// SampleTrace: small traces for the tests of this module, both fixed and random.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "interop/import_columns.h"
#include "trace/trace.h"

namespace millrace::interop {

inline constexpr int64_t kSampleOriginNs = 1'700'000'000'123'456'789;

// A trace in its own directory, written with TraceWriter and opened again.
class SampleTrace {
 public:
  SampleTrace()
      : directory_(*TemporaryDirectory::create()),
        writer_(*trace::TraceWriter::create(path(), kSampleOriginNs)) {}

  std::string path(const std::string& name = "sample.mrt") const {
    return (directory_.path() / name).string();
  }
  trace::TraceWriter& writer() { return writer_; }

  trace::ThreadIndex add_thread(const trace::Process& process, uint32_t tid) {
    return writer_.add_thread({.process = writer_.add_process(process), .tid = tid});
  }

  // All events must belong to one process.
  void append(const std::vector<Event>& events) {
    trace::EventColumns columns;
    for (const Event& event : events) append_event(columns, event, event.thread);
    const Status appended = writer_.append(columns);
    ASSERT_TRUE(appended.ok()) << appended.error().message();
  }

  trace::Trace open() {
    const Status finished = writer_.finish();
    EXPECT_TRUE(finished.ok());
    auto trace = trace::Trace::open(path());
    EXPECT_TRUE(trace.ok()) << trace.error().message();
    return *std::move(trace);
  }

 private:
  TemporaryDirectory directory_;
  trace::TraceWriter writer_;
};

// All events of a trace as sorted lines of text with every column. They must not change.
std::vector<std::string> all_events(const trace::Trace& trace);

// Adds three processes (two of them with the same pid before and after exec), threads, every call,
// errors, second files, tags of all kinds, and names that are not text.
void add_random_events(SampleTrace& sample, uint64_t seed, size_t count);

}  // namespace millrace::interop
