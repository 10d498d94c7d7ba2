// LocalReads: reads of a LocalSource in flight, through the queue of its engine.
//
// The results are checked like those of single reads. A failed read is repeated as a single read,
// which returns the same error message.
#pragma once

#include <memory>
#include <vector>

#include "data/queued_reads.h"
#include "io/engine.h"
#include "loader/exchange/local_source.h"

namespace millrace::loader {

class LocalReads final : public data::QueuedReads {
 public:
  // `samples` reads the samples file of the storage.
  LocalReads(const LocalSource& source, std::shared_ptr<const io::Reader> samples,
             std::unique_ptr<io::ReadQueue> queue);
  ~LocalReads() override { close(); }

 private:
  Status begin(size_t index) override;
  Result<ByteView> outcome(size_t index, Result<size_t> read) override;

  const LocalSource& source_;
  std::shared_ptr<const io::Reader> samples_;  // shared with the source
  std::vector<Ownership::Entry> entries_;      // by slot
};

}  // namespace millrace::loader
