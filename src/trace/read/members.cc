#include "trace/read/members.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "trace/read/packed_trace.h"
#include "trace/read/recording_member.h"
#include "trace/record/session_directory.h"

namespace millrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 8;

class PackedMember final : public Member {
 public:
  static Result<std::unique_ptr<PackedMember>> open(const std::string& path) {
    ASSIGN_OR_RETURN(ByteSource source, ByteSource::from_file(path));
    ASSIGN_OR_RETURN(PackedTrace file, PackedTrace::open(std::move(source), path));
    return std::make_unique<PackedMember>(std::move(file));
  }

  explicit PackedMember(PackedTrace file) : file_(std::move(file)) {
    for (const PackedBlock& block : file_.event_blocks()) {
      blocks_.push_back({.event_count = block.header.count,
                         .begin_ns = block.header.begin_ns,
                         .end_ns = block.header.end_ns,
                         .process = static_cast<ProcessIndex>(block.header.process)});
    }
  }

  const PackedTrace& file() const { return file_; }

  const Tables& tables() const override { return file_.tables(); }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  const std::vector<std::string>& problems() const override { return file_.problems(); }
  int64_t origin_wall_ns() const override { return file_.header().origin_wall_ns; }
  std::vector<std::string> release_names() override { return file_.release_names(); }
  Status read(size_t block, EventColumns& columns) const override {
    return file_.read(block, columns);
  }
  Result<uint32_t> levels(size_t block) const override { return file_.levels(block); }

 private:
  PackedTrace file_;
  std::vector<BlockInfo> blocks_;
};

std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void open_packed(const std::vector<fs::path>& entries, OpenedMembers& opened) {
  for (const fs::path& entry : entries) {
    std::error_code error;
    if (entry.extension() != ".mrt" || !fs::is_regular_file(entry, error)) continue;
    auto member = PackedMember::open(entry.string());
    if (member.ok()) {
      opened.members.push_back(*std::move(member));
    } else {
      opened.problems.push_back(member.error().message());
    }
  }
}

bool is_packed_from(const PackedTrace& file, const SessionEntry& session) {
  return file.is_packed_recording() && !file.tables().sessions.empty() &&
         is_same_recording(file.tables().sessions.front(), session);
}

void open_recordings(const std::vector<fs::path>& entries, OpenedMembers& opened) {
  std::vector<std::unique_ptr<Member>> recordings;
  for (const fs::path& entry : entries) {
    if (!SessionDirectory::is_one(entry)) continue;
    const auto session = SessionDirectory::open(entry);
    if (!session.ok()) {
      // A packer deletes the directory when it is done.
      const bool is_gone = session.error().code() == Errc::kNotFound;
      if (!is_gone) opened.problems.push_back(session.error().message());
      continue;
    }
    std::map<std::string, Consumed> consumed;
    std::vector<wire::ClockSample> samples;
    for (const auto& member : opened.members) {
      const auto* packed = dynamic_cast<const PackedMember*>(member.get());
      if (packed == nullptr || !is_packed_from(packed->file(), session->entry())) continue;
      consumed = packed->file().consumed();
      samples = packed->file().clock_samples();
    }
    auto member = RecordingMember::open(entry, consumed, samples);
    if (member.ok()) {
      recordings.push_back(*std::move(member));
    } else {
      opened.problems.push_back(member.error().message());
    }
  }
  for (auto& member : recordings) opened.members.push_back(std::move(member));
}

// A packed trace without its end is normal next to the recording that it is made from. Elsewhere
// something is missing.
void note_unfinished(OpenedMembers& opened) {
  for (const auto& member : opened.members) {
    const auto* packed = dynamic_cast<const PackedMember*>(member.get());
    if (packed == nullptr || packed->file().has_index()) continue;
    // A packer that has committed nothing has not consumed anything either.
    if (packed->file().is_packed_recording() && packed->file().blocks().empty()) continue;
    const bool has_recording =
        std::any_of(opened.members.begin(), opened.members.end(), [&](const auto& other) {
          return dynamic_cast<const RecordingMember*>(other.get()) != nullptr &&
                 is_packed_from(packed->file(), other->tables().sessions.front());
        });
    if (!has_recording) opened.problems.push_back(packed->file().unfinished());
  }
}

uint64_t packed_bytes(const fs::path& path) {
  uint64_t total = 0;
  std::error_code error;
  const fs::path parent = SessionDirectory::is_one(path) ? path.parent_path() : path;
  for (const fs::path& entry : sorted_entries(parent)) {
    if (entry.extension() != ".mrt") continue;
    const uint64_t size = fs::file_size(entry, error);
    if (!error) total += size;
  }
  return total;
}

Result<OpenedMembers> open_once(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return fail(Errc::kNotFound,
                "{}: no such file or directory; a trace is what `millrace trace -o` "
                "wrote",
                path);
  }
  OpenedMembers opened;
  if (!fs::is_directory(status)) {
    ASSIGN_OR_RETURN(auto member, PackedMember::open(path));
    opened.members.push_back(std::move(member));
    note_unfinished(opened);
    return opened;
  }
  if (fs::directory_iterator(path, error); error) {
    return fail_os(error.value(), "cannot list the directory").within(path);
  }
  // The path may be a session's directory; its packed member is next to it.
  const bool is_session = SessionDirectory::is_one(path);
  const fs::path session = fs::path(path).lexically_normal();
  const fs::path own = session.has_filename() ? session : session.parent_path();
  const std::vector<fs::path> entries =
      is_session ? std::vector<fs::path>{own, fs::path(own).concat(".mrt")} : sorted_entries(path);
  open_packed(entries, opened);
  open_recordings(entries, opened);
  note_unfinished(opened);
  if (opened.members.empty() && opened.problems.empty()) {
    return fail(Errc::kNotFound, "{}: contains no trace: neither *.mrt files nor recordings", path);
  }
  return opened;
}

}  // namespace

Result<OpenedMembers> open_members(const std::string& path) {
  // A packer may move events from a recording to its file while we read them. The file has then
  // grown, and both are read again.
  for (int attempt = 1;; ++attempt) {
    const uint64_t before = packed_bytes(path);
    auto opened = open_once(path);
    if (attempt == kAttempts || packed_bytes(path) == before) return opened;
  }
}

Result<OpenedMembers> open_members(const std::vector<std::string>& paths) {
  OpenedMembers all;
  for (const std::string& path : paths) {
    auto opened = open_members(path);
    if (!opened.ok()) {
      all.problems.push_back(opened.error().message());
      continue;
    }
    for (auto& member : opened->members) all.members.push_back(std::move(member));
    for (auto& problem : opened->problems) all.problems.push_back(std::move(problem));
  }
  if (!all.members.empty()) return all;
  if (all.problems.empty()) return fail(Errc::kInvalidArgument, "no trace is given");
  return fail(Errc::kNotFound, "{}", fmt::join(all.problems, "; "));
}

std::vector<std::string> without_repeats(const std::vector<std::string>& paths) {
  std::error_code error;
  const auto canonical = [&](const std::string& path) {
    const fs::path found = fs::weakly_canonical(path, error);
    return error ? fs::path(path) : found;
  };
  std::set<fs::path> directories;
  for (const std::string& path : paths) {
    if (fs::is_directory(path, error)) directories.insert(canonical(path));
  }
  std::set<fs::path> taken;
  std::vector<std::string> kept;
  for (const std::string& path : paths) {
    const fs::path place = canonical(path);
    const bool is_session = SessionDirectory::is_one(place);
    const bool is_packed = place.extension() == ".mrt" && fs::is_regular_file(place, error);
    // Opening a session's directory also reads its packed member, which is next to it.
    const fs::path session = place.parent_path() / place.stem();
    const bool is_in_another =
        ((is_session || is_packed) && directories.contains(place.parent_path())) ||
        (is_packed && directories.contains(session) && SessionDirectory::is_one(session));
    if (!is_in_another && taken.insert(place).second) kept.push_back(path);
  }
  return kept;
}

}  // namespace millrace::trace
