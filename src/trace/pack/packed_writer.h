// PackedWriter: writes the blocks of one *.mrt file in order. docs/formats/trace.md.
//
// TraceWriter and Packer are built on it. Tables are kept in memory. flush_tables() writes what is
// new; append() calls it, so that an event's names are in the file before the event.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"
#include "trace/pack/block_codec.h"
#include "trace/pack/compression.h"
#include "trace/read/packed_trace.h"
#include "trace/read/tables.h"

namespace millrace::trace {

class PackedWriter {
 public:
  // Starts a file. `flags` are those of TraceFileHeader.
  static Result<PackedWriter> create(File file, int64_t origin_wall_ns, uint32_t flags);

  // Continues a file at its end, with its tables.
  static PackedWriter resume(File file, const PackedTrace& before);

  const Tables& tables() const { return tables_; }
  uint64_t size_bytes() const { return size_bytes_; }

  NameIndex add_name(std::string_view name);
  uint32_t add_session(SessionEntry session);
  ProcessIndex add_process(ProcessEntry process);
  ThreadIndex add_thread(const Thread& thread);
  void add_loss(const LostEvents& loss);

  // Returns an entry to change; it will be written again. REQUIRES: the entry exists.
  SessionEntry& session(uint32_t index);
  ProcessEntry& process(ProcessIndex index);

  // REQUIRES: all events belong to `process`.
  Status append(const EventColumns& columns, ProcessIndex process);

  // An encoded block, so that several threads can encode at the same time.
  struct EncodedBlock {
    BytesOut payload;
    uint32_t count = 0;
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
    ProcessIndex process{};
  };
  static void encode(const EventColumns& columns, EventRun run, ProcessIndex process,
                     BlockEncoder& encoder, EncodedBlock& out);
  Status append(const EncodedBlock& block);

  // The events from `first` on that fit into one block, limited by events and by tags.
  static EventRun next_run(const EventColumns& columns, size_t first);

  Status flush_tables();
  Status append_commit(const Commit& commit);
  Status append_clock(const std::vector<wire::ClockSample>& samples);

  // Writes pending tables, the index and the trailer. More may be appended afterwards.
  Status finish();
  Status sync() const { return file_.sync(); }
  // Frees the space of what was written after that, if possible. Only close() may follow.
  void truncate(uint64_t size_bytes) const;
  Status close() { return file_.close(); }

 private:
  explicit PackedWriter(File file) : file_(std::move(file)) {}

  Status append_block(wire::TraceBlockHeader head, ByteView payload);
  Status append_table(wire::TraceBlockKind kind, uint32_t count, const BytesOut& payload);
  Status flush_names();

  File file_;
  uint64_t size_bytes_ = 0;
  std::vector<PackedBlock> blocks_;
  Tables tables_;
  std::unordered_map<std::string, NameIndex> name_index_;
  size_t names_written_ = 1;  // every file has the empty name
  size_t threads_written_ = 0;
  size_t losses_written_ = 0;
  std::vector<bool> session_changed_;
  std::vector<bool> process_changed_;
  bool tables_changed_ = false;
  BlockEncoder encoder_;
  EncodedBlock encoded_;
  Compressor compressor_;
};

}  // namespace millrace::trace
