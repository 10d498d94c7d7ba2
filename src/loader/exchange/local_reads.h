// LocalReads: reads of a LocalSource under way at once, through the queue of its engine.
//
// What a read in flight gives is checked as that of a read alone is; one that fails is made again
// alone, which says what is wrong in the same words.
#pragma once

#include <memory>
#include <vector>

#include "data/queued_reads.h"
#include "io/engine.h"
#include "loader/exchange/local_source.h"

namespace millrace::loader {

class LocalReads final : public data::QueuedReads {
 public:
  // `samples` reads the storage's file of samples.
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
