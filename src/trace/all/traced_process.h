// TracedProcess: what is known of a process that is watched from outside: its open files, its
// mapped files, its working directory, and its recording.
//
// As in the kernel, each of the three may be shared: by the threads of a process, and by processes
// that clone made so. Not for threads: one watcher handles all.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/all/recording_writer.h"
#include "trace/all/system_calls.h"
#include "wire/trace_record.h"

namespace millrace::trace {

// An open file description, shared by duplicates and by what fork copies. All who share it are
// watched, unless it was open before the first of them.
struct OpenFile {
  wire::NameId file = wire::kNoName;
  uint64_t position = 0;
  bool counted = false;     // `position` is right; otherwise the kernel is asked
  bool positioned = false;  // it has a position at all
  bool ignored = false;     // the filters leave it out
};

struct FileTable {
  std::unordered_map<int, std::shared_ptr<OpenFile>> files;
};

struct WorkingDirectory {
  std::string path;  // empty: to be asked for
};

struct FileMapping {
  uint64_t begin = 0;
  uint64_t size = 0;
  uint64_t offset = 0;  // in the file
  wire::NameId file = wire::kNoName;
};

class AddressSpace {
 public:
  // Whatever was mapped there before is replaced.
  void add(const FileMapping& range);

  // The first mapping that the range touches; null where there is none.
  const FileMapping* find(uint64_t begin, uint64_t size) const;

  // The range is no longer mapped: the pieces of mappings that were in it.
  std::vector<FileMapping> remove(uint64_t begin, uint64_t size);

  std::vector<FileMapping> all() const;

  // Code of our own library in the program: what it calls is not the program's doing.
  void add_own_code(uint64_t begin, uint64_t size) { own_code_[begin] = size; }
  bool is_own_code(uint64_t address) const;

 private:
  std::map<uint64_t, FileMapping> ranges_;  // by begin; they do not overlap
  std::map<uint64_t, uint64_t> own_code_;   // begin -> size
};

struct TracedProcess {
  uint32_t pid = 0;
  bool recorded = false;  // false: before the command's first exec, or a task of our own library
  ProcessImage image;
  std::shared_ptr<FileTable> files = std::make_shared<FileTable>();
  std::shared_ptr<WorkingDirectory> directory = std::make_shared<WorkingDirectory>();
  std::shared_ptr<AddressSpace> memory = std::make_shared<AddressSpace>();
  std::unique_ptr<RecordingWriter> writer;  // made when there is something to write
  ProcessEnd end;
};

// A call between its two stops.
struct PendingCall {
  const SystemCall* system_call = nullptr;
  Effect effect = Effect::kNone;
  uint64_t arguments[6] = {};
  RecordedCall record;
  std::shared_ptr<OpenFile> file;
  std::shared_ptr<OpenFile> other_file;
  bool ignored = false;
  std::vector<RecordedCall> uses;  // exec: of the mapped files that it is about to leave
};

struct TracedThread {
  uint32_t tid = 0;
  std::shared_ptr<TracedProcess> process;
  std::unique_ptr<PendingCall> pending;      // null: not in a followed call
  std::unique_ptr<PendingCall> interrupted;  // by a signal; the kernel may make the call again
  bool cloning = false;                      // it makes a process or a thread
  uint64_t clone_flags = 0;                  // of the clone it is making
  bool clone_is_ours = false;                // of a task of our library
  uint64_t clone_instruction = 0;            // where it makes it, and a copy begins
  uint64_t clone_stack = 0;
};

}  // namespace millrace::trace
