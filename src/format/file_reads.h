// FileReads: several reads of a FileSource in flight, through the queue of its engine.
#pragma once

#include <memory>
#include <vector>

#include "data/queued_reads.h"
#include "format/file_source.h"
#include "io/engine.h"

namespace millrace::format {

class FileReads final : public data::QueuedReads {
 public:
  FileReads(const FileSource& source, std::unique_ptr<io::ReadQueue> queue);
  ~FileReads() override { close(); }

 private:
  struct Part {
    data::Extent extent;
    std::shared_ptr<const io::Reader> reader;  // shared with the source, which may drop it first
  };

  Status begin(size_t index) override;
  Status begin_part(size_t index);
  Result<ByteView> outcome(size_t index, Result<size_t> read) override;
  void release(size_t index) override { parts_[index].reader.reset(); }

  const FileSource& source_;
  std::vector<Part> parts_;   // by slot
  size_t largest_bytes_ = 0;  // the largest file that outgrew its buffer
};

}  // namespace millrace::format
