// Hdf5Source: the rows of HDF5 files as samples, read through an engine.
//
// The layout of a file is read by libhdf5, under its lock; samples are then read without it, by any
// number of threads. A sample is row i of every dataset of its file that has as many rows as the
// file has samples, or a whole file. Its bytes are packed fields (packed_fields.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "data/dataset.h"
#include "data/queued_reads.h"
#include "data/source.h"
#include "format/format.h"
#include "format/hdf5/rows.h"
#include "format/packed_fields.h"
#include "format/reader_table.h"

namespace millrace::format {

class Hdf5Source final : public data::SampleSource {
 public:
  // Opens every file, unless a file is a sample: then each is opened when it is first read.
  static Result<std::shared_ptr<Hdf5Source>> open(std::shared_ptr<io::Engine> engine,
                                                  const std::vector<std::string>& paths,
                                                  const FormatOptions::Hdf5& options);

  uint64_t sample_count() const override { return first_samples_.back(); }
  std::string name(data::SampleId sample) const override;
  std::optional<int64_t> label(data::SampleId) const override { return std::nullopt; }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  data::ReadWays ways() const override;
  Result<std::unique_ptr<data::SampleReads>> open_reads(size_t capacity) const override;
  uint64_t group_count() const override { return paths_.size(); }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{first_samples_[group]};
  }
  std::string group_path(uint64_t group) const override { return paths_[group]; }

  // What is known about a file once it was opened.
  struct File {
    std::vector<Hdf5Dataset> datasets;  // the fields of its samples
    FieldsPacker packer{{}};
    size_t largest = 0;  // the dataset with the longest rows
    uint64_t sample_count = 0;
    data::FileStamp stamp;
  };

 private:
  friend class Hdf5Reads;

  // A sample: its file, and its rows there.
  struct Spot {
    uint64_t index = 0;  // of the file
    const File* file = nullptr;
    std::shared_ptr<const io::Reader> reader;
    uint64_t row = 0;
  };

  Hdf5Source(std::shared_ptr<io::Engine> engine, std::vector<std::string> paths,
             FormatOptions::Hdf5 options);

  uint64_t file_of(data::SampleId sample) const;
  Result<const File*> file_at(uint64_t index) const;
  Result<std::unique_ptr<io::Reader>> open_reader(uint64_t index) const;
  Result<Spot> spot_of(data::SampleId sample) const;
  Hdf5Rows rows_of(const Hdf5Dataset& dataset, uint64_t row) const;
  Status read_field(const Spot& spot, size_t field, MutableByteView sample) const;
  Status read_all(const Spot& spot, MutableByteView sample) const;
  Error named(data::SampleId sample, Error error) const;
  Error too_long(data::SampleId sample, const File& file, size_t room_bytes) const;

  uint64_t number_;                     // of the source, in the keys of cached chunks
  std::shared_ptr<io::Engine> engine_;  // shared with the caller
  std::vector<std::string> paths_;
  FormatOptions::Hdf5 options_;
  std::vector<uint64_t> first_samples_;  // by file, and one past the last
  bool has_direct_reads_ = false;        // the longest rows are runs of bytes in the files
  mutable std::vector<std::atomic<const File*>> files_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<const File>> opened_ GUARDED_BY(mutex_);
  ReaderTable readers_;
};

// Several reads in flight: the longest rows through the queue, the others when they are done.
class Hdf5Reads final : public data::QueuedReads {
 public:
  Hdf5Reads(const Hdf5Source& source, std::unique_ptr<io::ReadQueue> queue);
  ~Hdf5Reads() override { close(); }

 private:
  Status begin(size_t index) override;
  Result<ByteView> outcome(size_t index, Result<size_t> read) override;
  void release(size_t index) override { spots_[index] = {}; }

  const Hdf5Source& source_;
  std::vector<Hdf5Source::Spot> spots_;   // by slot
  std::vector<MutableByteView> samples_;  // by slot
};

}  // namespace millrace::format
