// SampleReads: reads of a source that are under way at once, for one thread.
//
//   reads->submit({.sample = sample, .out = row, .tag = 7});
//   ...
//   reads->wait(done);  // some of them, in any order
//
// A thread that reads one sample at a time leaves a device or a network idle for most of the time.
// Every implementation gives the bytes and the errors that its source's read() and read_into() do:
// source_contract.h holds it to that. The source outlives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
#include "data/sample.h"

namespace millrace::data {

struct SampleRequest {
  SampleId sample{};
  MutableByteView out;     // where its bytes go, as of read_into(); or
  Buffer* room = nullptr;  // where they go, as of read(). Both are the caller's, until it is done
  uint64_t tag = 0;        // the caller's, handed back with the result
};

struct SampleDone {
  uint64_t tag = 0;
  Result<ByteView> bytes;  // in `out` or `room`, or where they lie, as of read()
};

class SampleReads {
 public:
  virtual ~SampleReads() = default;  // waits for what is in flight: its memory is the caller's

  virtual size_t capacity() const = 0;
  virtual size_t in_flight() const = 0;

  // What is wrong with the sample comes with the result. REQUIRES: in_flight() < capacity()
  virtual void submit(const SampleRequest& request) = 0;

  // Waits until at least one read is done, and adds all that are to `done`. Nothing in flight: adds
  // nothing.
  virtual void wait(std::vector<SampleDone>& done) = 0;
};

// The ways in which a source can be read, by the names of the engines: for statistics.
struct ReadWays {
  std::string one_at_a_time;    // SampleSource::read(); empty: it has no name
  std::string in_flight;        // SampleReads; empty: there are none
  bool is_open_choice = false;  // which is faster depends, and is to be measured; else it is the
                                // latter, where there are any
  std::string refusal;          // why there are none, of a source that would have them elsewhere
};

}  // namespace millrace::data
