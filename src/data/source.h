// SampleSource: where samples come from, as encoded bytes by their number.
//
// The loader reads through this alone, whether a sample is a file, a record in a file of many, or
// lies in a store on the nodes' disks. Every implementation guarantees, and source_contract.h
// checks:
//  - the count, the labels and the groups do not change; reads may be made by many threads at once;
//  - reading a sample twice gives the same bytes, or an error when the data changed underneath;
//  - errors name the sample as a user knows it: the file, and the place in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
#include "data/reads.h"
#include "data/sample.h"

namespace millrace::data {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual uint64_t sample_count() const = 0;

  // As a user finds it: "train/cat/7.jpg", "shards/000.tar: sample 'n01_7' at byte 10240".
  virtual std::string name(SampleId sample) const = 0;

  // The class of the sample, where the source knows it without reading it.
  virtual std::optional<int64_t> label(SampleId sample) const = 0;

  // The encoded bytes: in `room`, or where they lie in mapped memory (valid while the source lives
  // and `room` is not used again).
  virtual Result<ByteView> read(SampleId sample, Buffer& room) const = 0;

  // The encoded bytes straight into `out`, without a copy: how many they were. A sample longer than
  // `out` fails with kExhausted.
  virtual Result<size_t> read_into(SampleId sample, MutableByteView out) const = 0;

  // How it can be read, and which way is the faster.
  virtual ReadWays ways() const { return {}; }

  // Reads of which up to `capacity` are under way at once, for one thread; null where ways() has
  // none. Fails where the system has no more of them. REQUIRES: capacity > 0
  virtual Result<std::unique_ptr<SampleReads>> open_reads(size_t capacity) const {
    static_cast<void>(capacity);
    return std::unique_ptr<SampleReads>();
  }

  // A hint that these are read soon, in this order.
  virtual void prepare(std::span<const SampleId> soon) const { static_cast<void>(soon); }

  // Reads go on at this place of the order: in the epoch, after `done` positions of it that were
  // read before, and then in the epochs after it, one by one, without another call. For sources
  // that look ahead in the order. Reads from before may still be under way.
  virtual void start_epoch(Epoch epoch, uint64_t done) const {
    static_cast<void>(epoch), static_cast<void>(done);
  }

  // Whether samples of an epoch can be read before it has begun. Not where what is held changes
  // from one epoch to the next: a loader then begins the epoch here, and reads none before.
  virtual bool can_read_ahead() const { return true; }

  // Samples that lie together, such as those of one file: group g holds the samples from
  // group_begin(g) to group_begin(g + 1). What file-level shuffling permutes.
  virtual uint64_t group_count() const = 0;
  virtual SampleId group_begin(
      uint64_t group) const = 0;  // group_count(): one past the last sample
};

}  // namespace millrace::data
