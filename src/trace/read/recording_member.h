// RecordingMember: a recording, or what is not yet packed of it, as a member of a trace.
//
// Opening scans all events once to build the tables and the list of blocks. Rings are copied, so
// that the member does not change while its programs run. Logs are read again for each block.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trace/read/members.h"
#include "trace/record/recording_index.h"
#include "trace/record/session_directory.h"

namespace millrace::trace {

// The opened files of one process.
struct OpenedRecording {
  std::string name;
  ProcessRecording recording;
};

// The inputs of a recording, from any source.
struct RecordingInput {
  SessionEntry session;
  wire::LossCounters session_lost{};
  ByteSource names;
  TickMap ticks;
  std::vector<OpenedRecording> recordings;
  std::vector<std::string> problems;
};

class RecordingMember final : public Member, private Registry {
 public:
  // `consumed` is what a packed trace already holds; it is left out.
  static Result<std::unique_ptr<RecordingMember>> open(
      const std::filesystem::path& directory, const std::map<std::string, Consumed>& consumed,
      const std::vector<wire::ClockSample>& clock_samples);

  explicit RecordingMember(RecordingInput input);

  const Tables& tables() const override { return tables_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  const std::vector<std::string>& problems() const override { return input_.problems; }
  int64_t origin_wall_ns() const override { return input_.session.clock.first.wall_ns; }
  std::vector<std::string> release_names() override { return std::exchange(tables_.names, {}); }
  Status read(size_t block, EventColumns& columns) const override;
  Result<uint32_t> levels(size_t block) const override { return sources_[block].levels; }

 private:
  // The chunks of one block, all from the files of one process.
  struct BlockSource {
    size_t recording = 0;
    size_t first_chunk = 0;
    size_t chunk_count = 0;
    uint32_t pid = 0;
    uint32_t levels = 0;
  };

  NameIndex add_name(std::string_view name) override;
  ProcessIndex add_process(const ProcessEntry& entry) override;
  ThreadIndex add_thread(const Thread& thread) override;

  void survey(size_t recording);
  void survey_chunks(size_t recording, size_t first, size_t count);
  void join_recordings();
  void add_losses(const OpenedRecording& opened);

  RecordingInput input_;
  Tables tables_;
  std::unordered_map<std::string, NameIndex> name_index_;  // empty after opening
  NameIndex origin_pid_{};
  NameIndex origin_tid_{};
  RecordingIndex index_;
  std::vector<BlockInfo> blocks_;
  std::vector<BlockSource> sources_;
};

}  // namespace millrace::trace
