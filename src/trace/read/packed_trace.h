// PackedTrace: reads one *.mrt file. docs/formats/trace.md.
//
// Opening reads the tables and the list of blocks: from the index if there is one, else block by
// block. Damage does not end the reading: problems() reports what cannot be read, and reading goes
// on at the next intact block. Several threads may read blocks at the same time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trace/pack/block_codec.h"
#include "trace/read/byte_source.h"
#include "trace/read/tables.h"
#include "wire/trace_file.h"

namespace millrace::trace {

struct PackedBlock {
  uint64_t offset = 0;  // of its header in the file
  wire::TraceBlockHeader header{};
};

class PackedTrace {
 public:
  // Fails if the bytes are not a trace file of a version that this build reads. Every message
  // begins with `name`.
  static Result<PackedTrace> open(ByteSource source, std::string name);

  const Tables& tables() const { return tables_; }
  const std::vector<PackedBlock>& event_blocks() const { return event_blocks_; }
  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<wire::ClockSample>& clock_samples() const { return clock_samples_; }
  const std::map<std::string, Consumed>& consumed() const { return consumed_; }
  const wire::TraceFileHeader& header() const { return header_; }
  bool has_index() const { return has_index_; }
  // The problem to report if there is no index.
  std::string unfinished() const {
    return name_ +
           ": has no index at its end: its writer was stopped, or is still running. The intact "
           "blocks were read one by one";
  }
  bool is_packed_recording() const { return (header_.flags & wire::kTraceFileNeedsCommit) != 0; }
  uint64_t size_bytes() const { return source_.size_bytes(); }

  // Moves the names out of tables(). Events are still checked against their number.
  std::vector<std::string> release_names() { return std::exchange(tables_.names, {}); }

  // All blocks, for a writer that continues this file and lists them in its index.
  const std::vector<PackedBlock>& blocks() const { return blocks_; }

  // Continues after the last commit, in a file that a packer is still writing: tables,
  // event_blocks() and consumed() grow. Uncommitted blocks are left for the next call.
  Status read_on();

  // Reads events with the file's own indices and times.
  Status read(size_t event_block, EventColumns& columns) const;

  // The levels of the block's calls, like block_levels(), without decoding the block.
  Result<uint32_t> levels(size_t event_block) const;

 private:
  PackedTrace(ByteSource source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {}

  Status read_header();
  bool read_index();
  Status take_index(const PackedBlock& index);
  void scan(uint64_t from_offset);
  Result<PackedBlock> block_at(uint64_t offset) const;
  uint64_t find_block(uint64_t from_offset) const;
  void take_blocks();
  void keep_committed();
  Status take_table(const PackedBlock& block);
  Result<std::vector<std::byte>> payload(const PackedBlock& block) const;
  Result<ByteView> checked_body(const PackedBlock& block) const;
  Error lost(const PackedBlock& block, const Error& error) const;
  Status check_references(const EventColumns& columns) const;
  void note(const Error& error) { problems_.push_back(name_ + ": " + error.message()); }

  ByteSource source_;
  std::string name_;
  wire::TraceFileHeader header_{};
  std::vector<PackedBlock> blocks_;
  std::vector<PackedBlock> event_blocks_;
  Tables tables_;
  size_t name_count_ = 0;
  std::vector<wire::ClockSample> clock_samples_;
  std::map<std::string, Consumed> consumed_;
  std::vector<std::string> problems_;
  bool has_index_ = false;
  uint64_t committed_bytes_ = sizeof(wire::TraceFileHeader);  // where the last commit ends
};

}  // namespace millrace::trace
