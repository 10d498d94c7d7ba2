// UringQueue: reads in flight in the kernel, by io_uring.
//
// Reads gather in submit() and go to the kernel together, at the latest in wait(): one system call
// for many. A short or interrupted read goes back into the ring. Memory that was told of by
// use_memory() is pinned once and read into by fixed reads: that halves the CPU time of a direct
// read of 128 KiB (docs/design/engines.md). A file that is read whole is opened and closed by plain
// calls, and only its bytes go through the ring. Includes liburing; only uring*.cc include this.
#pragma once

#include <liburing.h>

#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "io/engine.h"
#include "io/engines.h"
#include "io/read_cursor.h"

namespace millrace::io {

class UringQueue final : public ReadQueue {
 public:
  static constexpr size_t kCapacityMax = 32768;  // as the kernel allows

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
    // Of a file that is read whole:
    File file;
    std::string path;
    size_t room_bytes = 0;
  };

  explicit UringQueue(const UringOptions& options);

  size_t take_slot(uint64_t tag);
  Status begin(size_t index);
  Status start(size_t index);
  void prepare_read(io_uring_sqe& entry, const Slot& slot) const;
  // Takes what one read gave: adds it to `done`, or sends the rest on its way.
  Status complete(size_t index, int result, std::vector<ReadDone>& done);
  void finish(size_t index, Result<size_t> result, std::vector<ReadDone>& done);
  Status flush();

  const UringOptions options_;
  io_uring ring_{};
  bool is_open_ = false;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  // Slots whose read asks for nothing, or whose file cannot be opened: done at once.
  std::vector<std::pair<size_t, Result<size_t>>> at_once_;
  size_t gathered_ = 0;  // in the ring's memory, not yet told to the kernel
  size_t in_kernel_ = 0;
  std::vector<MutableByteView> pinned_;  // by their index in the ring
};

}  // namespace millrace::io
