// SampleTrace: small traces for this module's tests, fixed ones and random ones of every shape.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/temporary_directory.h"
#include "interop/import_columns.h"
#include "trace/trace.h"

namespace millrace::interop {

inline constexpr int64_t kSampleOriginNs = 1'700'000'000'123'456'789;

// A trace in a directory of its own, written through TraceWriter and opened again.
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

  // All of one process.
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

// All events of a trace as lines of text with every column, sorted: what must not change.
std::vector<std::string> all_events(const trace::Trace& trace);

// Three processes (two of them one pid before and after exec), threads, every call, errors, second
// files, tags of all kinds, names that are not text. Fills `sample`.
void add_random_events(SampleTrace& sample, uint64_t seed, size_t count);

}  // namespace millrace::interop
