// FileReads: reads of a FileSource under way at once, through the queue of its engine.
//
// A queue that fails as a whole, and not for one of its reads, is given up: what was in flight is
// read one at a time, and so is all that follows. A job does not end for want of a ring.
#pragma once

#include <memory>
#include <vector>

#include "data/reads.h"
#include "format/file_source.h"
#include "io/engine.h"

namespace millrace::format {

class FileReads final : public data::SampleReads {
 public:
  FileReads(const FileSource& source, std::unique_ptr<io::ReadQueue> queue);

  size_t capacity() const override { return slots_.size(); }
  size_t in_flight() const override { return slots_.size() - free_.size(); }
  void submit(const data::SampleRequest& request) override;
  void wait(std::vector<data::SampleDone>& done) override;

 private:
  struct Slot {
    data::SampleRequest request;
    data::Extent extent;
    MutableByteView place;
    std::shared_ptr<const io::Reader> reader;  // with the source, which may close it for another
  };

  Status begin(size_t index);
  Status begin_part(size_t index);
  Result<ByteView> outcome(const Slot& slot, Result<size_t> read);
  Result<ByteView> read_alone(const data::SampleRequest& request) const;
  void finish(size_t index, Result<ByteView> bytes, std::vector<data::SampleDone>& done);
  void give_up();

  const FileSource& source_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  std::vector<std::pair<size_t, Result<ByteView>>> at_once_;  // done without the queue
  std::vector<io::ReadDone> read_;
  size_t largest_bytes_ = 0;              // of the files that were read whole
  std::unique_ptr<io::ReadQueue> queue_;  // null: given up. Last: its reads go into the slots
};

}  // namespace millrace::format
