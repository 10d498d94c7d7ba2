// SampleReads: reads of a source that are in flight at once. Single-threaded.
//
//   reads->submit({.sample = sample, .out = row, .tag = 7});
//   ...
//   reads->wait(done);  // returns some of them, in any order
//
// A thread that reads one sample at a time leaves a device or a network idle most of the time.
// Every implementation returns the same bytes and errors as read() and read_into() of its source;
// source_contract.h checks that. The source must outlive it.
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
  // Where the bytes go: `out`, as for read_into(), or `room`, as for read(). The caller owns both
  // and keeps them alive until the read is done.
  MutableByteView out;
  Buffer* room = nullptr;
  uint64_t tag = 0;  // returned with the result
};

struct SampleDone {
  uint64_t tag = 0;
  Result<ByteView> bytes;  // in `out`, in `room` or in mapped memory, as for read()
};

class SampleReads {
 public:
  // Waits for reads in flight, because they write into the caller's memory.
  virtual ~SampleReads() = default;

  virtual size_t capacity() const = 0;
  virtual size_t in_flight() const = 0;

  // Errors of the sample are returned with its result. REQUIRES: in_flight() < capacity()
  virtual void submit(const SampleRequest& request) = 0;

  // Waits until at least one read is done, and appends all that are to `done`. Appends nothing if
  // nothing is in flight.
  virtual void wait(std::vector<SampleDone>& done) = 0;
};

// How a source can be read, as names of engines; for statistics.
struct ReadWays {
  std::string one_at_a_time;  // SampleSource::read(); empty: unnamed
  std::string in_flight;      // SampleReads; empty: not available
  // True: measure which way is faster. False: use reads in flight if they are available.
  bool is_open_choice = false;
  std::string refusal;  // why reads in flight are not available here, though they are elsewhere
};

}  // namespace millrace::data
