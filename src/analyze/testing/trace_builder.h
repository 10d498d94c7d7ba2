// TraceBuilder: creates small real traces for tests, event by event.
//
//   TraceBuilder job(directory);
//   const Program rank0 = job.program({.rank = 0, .world_size = 2, .host = "node1"});
//   rank0.open("/data/a.jpg", {.at = 1ms, .takes = 20us});
//   rank0.read("/data/a.jpg", {.at = 2ms, .takes = 1ms, .offset = 0, .size = 4096});
//   rank0.region("compute", {.at = 3ms, .takes = 10ms, .epoch = 0, .step = 1});
//   const trace::Trace trace = job.finish();
//
// Events of a thread are sorted by end, as a recorder writes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace millrace::analyze {

struct ProgramSpec {
  int32_t rank = -1;
  int32_t world_size = -1;
  std::string host = "node1";
  uint32_t cores = 0;  // of the host; that of its first program counts
  std::string command = "python train.py";
  uint32_t parent_pid = 1;  // the pid of another program: this is its worker
  int32_t exit_code = 0;
};

// What an event has besides call and file. Times are relative to the begin of the job.
struct EventSpec {
  std::chrono::nanoseconds at{};
  std::chrono::nanoseconds takes{1000};
  uint64_t offset = wire::kNoOffset;
  uint64_t size = 0;    // bytes; also the result, unless that is given
  int64_t result = -2;  // -2: same as size
  uint16_t error = 0;
  uint32_t detail = 0;          // open flags, ...
  int64_t epoch = -1;           // of regions
  int64_t step = -1;            // of regions
  uint32_t thread = 0;          // 0: the main thread; others are created on first use
  std::string other_file = {};  // of rename and copy_file_range
  std::vector<std::pair<std::string, int64_t>> tags = {};  // of regions
};

class TraceBuilder;

// A handle to a process that is being built.
class Program {
 public:
  uint32_t pid() const;
  void call(wire::Call call, std::string_view file, EventSpec spec) const;
  void open(std::string_view file, EventSpec spec) const;
  void read(std::string_view file, EventSpec spec) const;   // pread
  void write(std::string_view file, EventSpec spec) const;  // pwrite
  void close(std::string_view file, EventSpec spec) const;
  void fstat(std::string_view file, EventSpec spec) const;  // `size` is the size of the file
  void region(std::string_view name, EventSpec spec) const;

 private:
  friend class TraceBuilder;
  Program(TraceBuilder& builder, size_t index) : builder_(&builder), index_(index) {}
  TraceBuilder* builder_;
  size_t index_;
};

class TraceBuilder {
 public:
  // Writes `path`, an .mrt file.
  explicit TraceBuilder(std::string path);
  ~TraceBuilder();

  Program program(const ProgramSpec& spec);

  // Writes the file. Aborts the test if writing fails.
  void write();

  // Writes the file and opens it again.
  trace::Trace finish();

 private:
  friend class Program;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::analyze
