// TracedProcess: the state of a process that is watched from outside: its open files, its mapped
// files, its working directory and its recording.
//
// As in the kernel, each of the first three may be shared, by threads of a process and by processes
// made with clone. Not thread-safe: one watcher thread handles everything.
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

// An open file description, shared by duplicates and forked processes. All processes that share it
// are watched, unless it was open before the first of them.
struct OpenFile {
  wire::NameId file = wire::kNoName;
  uint64_t position = 0;
  bool counted = false;     // `position` is correct; otherwise ask the kernel
  bool positioned = false;  // it has a position
  bool ignored = false;     // the filters exclude it
};

struct FileTable {
  std::unordered_map<int, std::shared_ptr<OpenFile>> files;
};

struct WorkingDirectory {
  std::string path;  // empty: not known yet
};

struct FileMapping {
  uint64_t begin = 0;
  uint64_t size = 0;
  uint64_t offset = 0;  // in the file
  wire::NameId file = wire::kNoName;
};

class AddressSpace {
 public:
  // Replaces whatever was mapped there.
  void add(const FileMapping& range);

  // The first mapping that overlaps the range; null if there is none.
  const FileMapping* find(uint64_t begin, uint64_t size) const;

  // Removes the range, and returns the parts of mappings that were in it.
  std::vector<FileMapping> remove(uint64_t begin, uint64_t size);

  std::vector<FileMapping> all() const;

  // Code of our own library in the program. Its calls are not the program's.
  void add_own_code(uint64_t begin, uint64_t size) { own_code_[begin] = size; }
  bool is_own_code(uint64_t address) const;

 private:
  std::map<uint64_t, FileMapping> ranges_;  // by begin; without overlaps
  std::map<uint64_t, uint64_t> own_code_;   // begin -> size
};

struct TracedProcess {
  uint32_t pid = 0;
  bool recorded = false;  // false: before the command's first exec, or a task of our own library
  ProcessImage image;
  std::shared_ptr<FileTable> files = std::make_shared<FileTable>();
  std::shared_ptr<WorkingDirectory> directory = std::make_shared<WorkingDirectory>();
  std::shared_ptr<AddressSpace> memory = std::make_shared<AddressSpace>();
  std::unique_ptr<RecordingWriter> writer;  // created when there is something to write
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
  std::vector<RecordedCall> uses;  // for exec: use of the mapped files that it is about to drop
};

struct TracedThread {
  uint32_t tid = 0;
  std::shared_ptr<TracedProcess> process;
  std::unique_ptr<PendingCall> pending;      // null: not in a followed call
  std::unique_ptr<PendingCall> interrupted;  // by a signal; the kernel may restart the call
  bool cloning = false;                      // in clone, making a process or a thread
  uint64_t clone_flags = 0;                  // of that clone
  bool clone_is_ours = false;                // it makes a task of our library
  uint64_t clone_instruction = 0;            // where clone was called, and where the child begins
  uint64_t clone_stack = 0;
};

}  // namespace millrace::trace
