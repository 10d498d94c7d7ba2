// UringQueue: a ReadQueue on io_uring.
//
// submit() collects reads, and they go to the kernel together, in wait() at the latest: one system
// call for many. A short or interrupted read goes back into the ring. Memory passed to use_memory()
// is pinned once and read into with fixed reads, which halves the CPU time of a direct read of 128
// KiB (docs/design/engines.md). A file that is read whole is opened and closed with plain calls;
// only its bytes go through the ring. Includes liburing; only uring*.cc include this.
#pragma once

#include <liburing.h>

#include <string>
#include <utility>
#include <vector>

#include "base/io/file.h"
#include "io/engine.h"
#include "io/engines.h"
#include "io/read_cursor.h"

namespace millrace::io {

class UringQueue final : public ReadQueue {
 public:
  static constexpr size_t kCapacityMax = 32768;  // limit of the kernel

  static Result<std::unique_ptr<UringQueue>> open(const UringOptions& options);
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;
  ~UringQueue() override;

  size_t capacity() const override { return slots_.size(); }
  size_t in_flight() const override { return slots_.size() - free_.size(); }
  Status submit(const ReadRequest& request) override;
  Status submit_whole(WholeFileRequest request) override;
  void use_memory(MutableByteView memory) override;
  Status wait(std::vector<ReadDone>& done) override;

 private:
  struct Slot {
    ReadCursor cursor{ReadCursor::Read{}};
    ReadCursor::Piece piece;
    int fd = -1;
    uint64_t tag = 0;
    AlignedMemory bounce;
    // Only for a file that is read whole:
    File file;
    std::string path;
    size_t room_bytes = 0;
  };

  explicit UringQueue(const UringOptions& options);

  size_t take_slot(uint64_t tag);
  Status begin(size_t index);
  Status start(size_t index);
  void prepare_read(io_uring_sqe& entry, const Slot& slot) const;
  // Handles a completion: appends the read to `done`, or submits the rest of it.
  Status complete(size_t index, int result, std::vector<ReadDone>& done);
  void finish(size_t index, Result<size_t> result, std::vector<ReadDone>& done);
  Status flush();

  const UringOptions options_;
  io_uring ring_{};
  bool is_open_ = false;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  // Slots that are done without the ring: empty reads, and files that cannot be opened.
  std::vector<std::pair<size_t, Result<size_t>>> at_once_;
  size_t gathered_ = 0;  // in the ring's memory, not yet submitted to the kernel
  size_t in_kernel_ = 0;
  std::vector<MutableByteView> pinned_;  // by buffer index in the ring
};

}  // namespace millrace::io
