// TraceBuilder: makes small real traces for tests, event by event.
//
//   TraceBuilder job(directory);
//   const Program rank0 = job.program({.rank = 0, .world_size = 2, .host = "node1"});
//   rank0.open("/data/a.jpg", {.at = 1ms, .takes = 20us});
//   rank0.read("/data/a.jpg", {.at = 2ms, .takes = 1ms, .offset = 0, .size = 4096});
//   rank0.region("compute", {.at = 3ms, .takes = 10ms, .epoch = 0, .step = 1});
//   const trace::Trace trace = job.finish();
//
// Events of a thread are put into the order in which they end, as a recorder would have them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace millrace::analyze {

struct ProgramSpec {
  int32_t rank = -1;
  int32_t world_size = -1;
  std::string host = "node1";
  std::string command = "python train.py";
  uint32_t parent_pid = 1;  // another program's pid: its worker
  int32_t exit_code = 0;
};

// What an event may have beside call and file. Times count from the job's begin.
struct EventSpec {
  std::chrono::nanoseconds at{};
  std::chrono::nanoseconds takes{1000};
  uint64_t offset = wire::kNoOffset;
  uint64_t size = 0;    // bytes; the result is the same unless it is given
  int64_t result = -2;  // -2: as size
  uint16_t error = 0;
  uint32_t detail = 0;  // open flags, ...
  int64_t epoch = -1;   // of regions
  int64_t step = -1;    // of regions
  uint32_t thread = 0;  // 0: the main thread; others are made as they are named
};

class TraceBuilder;

// One process under construction; a handle.
class Program {
 public:
  uint32_t pid() const;
  void call(wire::Call call, std::string_view file, EventSpec spec) const;
  void open(std::string_view file, EventSpec spec) const;
  void read(std::string_view file, EventSpec spec) const;   // pread
  void write(std::string_view file, EventSpec spec) const;  // pwrite
  void close(std::string_view file, EventSpec spec) const;
  void fstat(std::string_view file, EventSpec spec) const;  // size: the file's
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

  // Writes the file. REQUIRES: the disk works; a test cannot go on otherwise, and it aborts.
  void write();

  // Writes it and opens it again.
  trace::Trace finish();

 private:
  friend class Program;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::analyze
