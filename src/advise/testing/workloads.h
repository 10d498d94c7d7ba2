// Workloads: jobs for the tests of rules, described in a few lines and turned into real traces.
//
//   JobSketch job(2);
//   for (Rank& rank : job.ranks()) {
//     rank.epoch(0, [&] {
//       rank.batch({.compute = 1s, .readers = 4}, [&](Team& team) {
//         team.next().read_file("/data/a.bin", {.size = 64 * kMiB, .piece = kMiB, .takes = 2ms});
//       });
//     });
//   }
//   EXPECT_THAT(rules_found(job.profile(), {}), ElementsAre("..."));
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "advise/advise.h"
#include "advise/judging.h"
#include "analyze/scan.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::advise {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct FileRead {
  uint64_t size = 0;
  uint64_t piece = 0;   // 0: in one read
  nanoseconds takes{};  // per piece
  nanoseconds opening = 20us;
  uint32_t flags = 0;  // of open
};

// A thread of the job. Its calls follow one another.
class Hand {
 public:
  Hand(analyze::Program program, uint32_t thread, nanoseconds begin)
      : now(begin), program_(program), thread_(thread) {}

  // `size` is the size of the file, as fstat reports it.
  void open(const std::string& file, uint64_t size, nanoseconds takes = 20us, uint32_t flags = 0);
  void read(const std::string& file, uint64_t offset, uint64_t size, nanoseconds takes);
  void write(const std::string& file, uint64_t offset, uint64_t size, nanoseconds takes);
  // Any other call that moves bytes.
  void transfer(wire::Call call, const std::string& file, uint64_t size, nanoseconds takes,
                uint64_t offset = wire::kNoOffset);
  void close(const std::string& file);
  void call(wire::Call call, const std::string& file, nanoseconds takes, uint64_t size = 0);
  void region(std::string_view name, nanoseconds takes);
  // Opens the file, reads it from start to end, closes it.
  void read_file(const std::string& file, const FileRead& how);

  nanoseconds now;

 private:
  analyze::Program program_;
  uint32_t thread_;
};

// Threads that work at the same time.
class Team {
 public:
  explicit Team(std::vector<Hand> hands) : hands_(std::move(hands)) {}
  Hand& next();  // the thread that is free first
  nanoseconds end() const;

 private:
  std::vector<Hand> hands_;
};

struct Batch {
  nanoseconds compute{};
  unsigned readers = 4;
  bool prefetch = true;  // read during compute; otherwise before it
};

class Rank {
 public:
  Rank(analyze::Program program, uint32_t index)
      : main(program, 0, 0ns), program_(program), index_(index) {}

  uint32_t index() const { return index_; }
  void epoch(int64_t number, const std::function<void()>& work);
  // One step: computes, and waits for readers that have not finished by then.
  void batch(const Batch& batch, const std::function<void(Team&)>& work);
  void compute(nanoseconds takes);
  // A region around what `main` does in `work`.
  void within(std::string_view name, const std::function<void()>& work);

  Hand main;

 private:
  void mark(std::string_view name, nanoseconds begin, nanoseconds end);

  analyze::Program program_;
  uint32_t index_;
  int64_t epoch_ = -1;
  int64_t step_ = -1;
};

class JobSketch {
 public:
  // Ranks are spread evenly over `hosts`.
  explicit JobSketch(uint32_t ranks = 1, uint32_t hosts = 1);

  std::vector<Rank>& ranks() { return ranks_; }
  Rank& rank() { return ranks_.front(); }

  // Records the reads of a program that imports "torch" or "tensorflow".
  void import(const std::string& framework);

  // The profile of the real trace. REQUIRES: called once.
  analyze::Profile profile();

 private:
  TemporaryDirectory directory_;
  analyze::TraceBuilder builder_;
  std::vector<Rank> ranks_;
};

// Names of the rules that found something, in the order of advise(); each finding is followed by
// others about the same seconds. Also expects that the saved profile gives the same advice.
std::vector<std::string> rules_found(const analyze::Profile& profile, const Machine& machine = {});

// The text of a finding's change for a framework; empty if there is none.
std::string change_for(const Finding& finding, std::string_view framework);

// 0 to count - 1, shuffled by `seed`.
std::vector<uint64_t> shuffled(uint64_t count, uint64_t seed);

}  // namespace millrace::advise
