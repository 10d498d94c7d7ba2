// SampleSource: reads encoded samples by index.
//
// The loader reads samples only through this interface, whether a sample is a file, a record in a
// file, or in a store on the hosts' disks. Every implementation guarantees, and source_contract.h
// checks:
//  - the count, the labels and the groups do not change; many threads may read at once;
//  - reading a sample twice returns the same bytes, or an error if the data has changed;
//  - errors name the sample as a user knows it: the file, and the place in it.
#pragma once

#include <cstdint>
#include <functional>
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

// Returns one sample after the other; nullopt: no more are known.
using ComingSamples = std::function<std::optional<SampleId>()>;
// Makes such a function, which begins at the first sample. Owns all it needs.
using ComingOrder = std::function<ComingSamples()>;

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual uint64_t sample_count() const = 0;

  // As a user knows it: "train/cat/7.jpg", "shards/000.tar: sample 'n01_7' at byte 10240".
  virtual std::string name(SampleId sample) const = 0;

  // The class of the sample, if the source knows it without reading the sample.
  virtual std::optional<int64_t> label(SampleId sample) const = 0;

  // Returns the encoded bytes, either in `room` or in mapped memory. They are valid while the
  // source lives and until `room` is reused.
  virtual Result<ByteView> read(SampleId sample, Buffer& room) const = 0;

  // Reads the encoded bytes straight into `out`, without a copy, and returns their number. Fails
  // with kExhausted if the sample is longer than `out`.
  virtual Result<size_t> read_into(SampleId sample, MutableByteView out) const = 0;

  // How the source can be read, and which way is faster.
  virtual ReadWays ways() const { return {}; }

  // For one thread: reads of which up to `capacity` can be in flight. Null if ways() has none.
  // Fails if the system is out of resources for them. REQUIRES: capacity > 0
  virtual Result<std::unique_ptr<SampleReads>> open_reads(size_t capacity) const {
    static_cast<void>(capacity);
    return std::unique_ptr<SampleReads>();
  }

  // A hint that these samples will be read soon, in this order.
  virtual void prepare(std::span<const SampleId> soon) const { static_cast<void>(soon); }

  // Whether expect() is of use.
  virtual bool wants_order() const { return false; }
  // The samples that will be read from now on. For sources that fetch ahead, on a thread of theirs.
  // Replaces the order before.
  virtual void expect(const ComingOrder& order) const { static_cast<void>(order); }
  // These samples of the order have been read; a batch at a time, nearly in order.
  virtual void finished(std::span<const SampleId> read) const { static_cast<void>(read); }

  // Reads continue at this place of the order: in `epoch`, after its first `done` positions. The
  // following epochs come one by one, without another call. For sources that look ahead in the
  // order. Earlier reads may still be in flight.
  virtual void start_epoch(Epoch epoch, uint64_t done) const {
    static_cast<void>(epoch), static_cast<void>(done);
  }

  // Whether samples of an epoch can be read before start_epoch(). False if the source holds
  // different samples in each epoch.
  virtual bool can_read_ahead() const { return true; }

  // Samples that are stored together, such as those of one file. Group g holds the samples
  // [group_begin(g), group_begin(g + 1)). File-level shuffling permutes groups.
  virtual uint64_t group_count() const = 0;
  virtual SampleId group_begin(
      uint64_t group) const = 0;  // group_count(): one past the last sample

  // The path of the file that holds the samples of a group; empty: there is none.
  virtual std::string group_path(uint64_t group) const {
    static_cast<void>(group);
    return {};
  }
};

}  // namespace millrace::data
