// BufferContents: what a buffer has, for whoever asks: its drainer, the command line, the services
// of other nodes. Any process may ask, at any time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"
#include "store/buffer/journal.h"
#include "store/buffer/model.h"
#include "wire/store_peer.h"

namespace millrace::store {

inline constexpr char kStillWritten[] = "a program still has it open for writing";

// A file that is not durable in the upper directory.
struct KeptFile {
  std::string path;            // relative to the root; empty: the journal does not say
  std::filesystem::path data;  // where its bytes are
  uint64_t size_bytes = 0;
  std::string reason;
};

// One line: which file is kept where, and why.
std::string kept_text(const KeptFile& file);

struct BufferContents {
  std::filesystem::path directory;
  BufferOwner owner;
  bool is_drained = false;  // a process copies its files now
  bool has_queued = false;  // also renames and removals that are not done in the upper directory
  std::vector<KeptFile> files;
  uint64_t size_bytes = 0;
};
Result<BufferContents> read_buffer(const std::filesystem::path& directory);

// The buffers below `parent` ("buffer-*") that nobody drains. One that cannot be read is listed
// with the reason as its only file.
std::vector<BufferContents> find_left_buffers(const std::filesystem::path& parent);

// A flush waits for what happened before it began, but not for files that programs still write.
struct FlushTicket {
  uint64_t generation;
  uint64_t end;
};
Result<FlushTicket> begin_flush(const std::filesystem::path& directory);
// kFailed: something fails now. It is tried again, and may succeed.
wire::FlushProgress look_at_flush(const std::filesystem::path& directory, FlushTicket ticket);

// ---- for the drainer ----

enum class Writers : uint8_t { kNone, kSome, kUnknown };

// Whether somebody has the file open for writing, or mapped. If nobody has, nobody can open it for
// writing as long as `file` is open: programs of the node do not wait for the lease.
Writers take_lease(const File& file);

// Whether a file may be copied: after a restart of the machine, only if it is as the last fsync
// left it.
bool may_copy(const BufferJournal& journal, const std::filesystem::path& data,
              const BufferedFile& file);

struct LoadedBuffer {
  BufferJournal journal;
  wire::BufferProgress progress;
  BufferModel model;         // what was executed is executed; the rest is queued
  bool has_skipped = false;  // a file that was not synced before the machine was restarted
};
Result<LoadedBuffer> load_buffer(const std::filesystem::path& directory);

// Notes in the journal that files are closed whose writers have ended without closing them.
// `is_last`: also those of which that is not known. Needs the journal's lock.
Status close_ended(BufferJournal& journal, const BufferModel& model, bool is_last);

// `model` has all of the journal. What stops the queue is first, with the reason of `progress`.
std::vector<KeptFile> list_kept(const BufferJournal& journal, BufferModel model,
                                const wire::BufferProgress& progress);

}  // namespace millrace::store
