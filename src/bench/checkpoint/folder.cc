#include "bench/checkpoint/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/io/directory.h"
#include "base/text/text.h"
#include "bench/workload/own_files.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEpoch = "global_epoch";
constexpr std::string_view kStep = "_step";
constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kReplaced = ".partial-replaced-";

// Takes a number without sign or leading zeros from the front of `text`.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<size_t>(end - text.data());
  if (failed != std::errc() || (text[0] == '0' && length > 1)) return std::nullopt;
  text.remove_prefix(length);
  return number;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "PATH has 'x' and 3 more, which no checkpoint of ours has, or which were changed since"
std::string foreign_text(const fs::path& path, const std::vector<std::string>& foreign) {
  const std::string more =
      foreign.size() == 1 ? "" : fmt::format(" and {} more", foreign.size() - 1);
  return fmt::format("{}: has '{}'{}, which millrace did not write, or which changed since",
                     printable(path.native()), printable(foreign.front()), more);
}

Status remove_own(const fs::path& path, std::vector<std::string>& notes) {
  ASSIGN_OR_RETURN(const auto foreign, remove_own_files(path));
  if (!foreign.empty()) notes.push_back(foreign_text(path, foreign) + ", and stays");
  return {};
}

// Calls `visit(name)` for each entry. A folder that does not exist has none.
template <typename Visit>
Status visit_names(const fs::path& folder, Visit visit) {
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  if (failed == std::errc::no_such_file_or_directory) return {};
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    RETURN_IF_ERROR(visit(entries->path().filename().native()));
  }
  if (failed) return fail_os(failed.value(), "cannot list it").within(folder.native());
  return {};
}

// Puts `from` in the place of `to`, which exists; what was there goes to `aside`.
Status put_in_place(const fs::path& from, const fs::path& to, const fs::path& aside) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    if (rename(from.c_str(), aside.c_str()) == 0) return {};
  } else if (rename(to.c_str(), aside.c_str()) == 0 && rename(from.c_str(), to.c_str()) == 0) {
    return {};  // a file system without RENAME_EXCHANGE, such as NFS
  }
  return fail_os(errno, "cannot replace the older checkpoint of that name").within(to.native());
}

}  // namespace

std::string checkpoint_name(CheckpointId id) {
  return fmt::format("{}{}{}{}", kEpoch, id.epoch, kStep, id.step);
}

std::optional<CheckpointId> parse_checkpoint_name(std::string_view name) {
  if (!take_prefix(name, kEpoch)) return std::nullopt;
  const auto epoch = take_number(name);
  if (!epoch || !take_prefix(name, kStep)) return std::nullopt;
  const auto step = take_number(name);
  if (!step || !name.empty()) return std::nullopt;
  return CheckpointId{.epoch = *epoch, .step = *step};
}

fs::path checkpoint_path(const fs::path& folder, CheckpointId id) {
  return folder / checkpoint_name(id);
}

fs::path partial_path(const fs::path& folder, CheckpointId id, std::string_view run) {
  return folder / fmt::format("{}{}-{}", kPartial, checkpoint_name(id), run);
}

Result<std::vector<CheckpointId>> find_checkpoints(const fs::path& folder) {
  std::vector<CheckpointId> found;
  RETURN_IF_ERROR(visit_names(folder, [&](const std::string& name) {
    if (const auto id = parse_checkpoint_name(name)) found.push_back(*id);
    return Status();
  }));
  std::ranges::sort(found);
  return found;
}

Status check_replaceable(const fs::path& folder, CheckpointId id) {
  const fs::path whole = checkpoint_path(folder, id);
  ASSIGN_OR_RETURN(const auto foreign, find_foreign(whole));
  if (foreign.empty()) return {};
  return fail(Errc::kAlreadyExists,
              "{}; remove it, or set checkpoint.checkpoint_folder to another folder",
              foreign_text(whole, foreign));
}

Result<uint64_t> commit_checkpoint(const fs::path& folder, CheckpointId id, std::string_view run,
                                   bool fsyncs, std::vector<std::string>& notes) {
  const fs::path partial = partial_path(folder, id, run);
  const fs::path whole = checkpoint_path(folder, id);
  uint64_t fsync_count = 0;
  if (fsyncs) {
    RETURN_IF_ERROR(sync_directory(partial));
    ++fsync_count;
  }
  const fs::path aside = folder / fmt::format("{}{}-{}", kReplaced, checkpoint_name(id), run);
  if (rename(partial.c_str(), whole.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) {
      return fail_os(errno, "cannot rename the finished checkpoint to it").within(whole.native());
    }
    RETURN_IF_ERROR(check_replaceable(folder, id));
    RETURN_IF_ERROR(put_in_place(partial, whole, aside));
  }
  if (fsyncs) {
    RETURN_IF_ERROR(sync_directory(folder));
    ++fsync_count;
  }
  RETURN_IF_ERROR(remove_own(aside, notes));
  return fsync_count;
}

Status remove_checkpoint(const fs::path& folder, CheckpointId id, std::string_view run,
                         std::vector<std::string>& notes) {
  const fs::path whole = checkpoint_path(folder, id);
  const fs::path partial = partial_path(folder, id, run);
  ASSIGN_OR_RETURN(const auto foreign, find_foreign(whole));
  if (!foreign.empty()) {
    notes.push_back(foreign_text(whole, foreign) + ", and stays");
    return {};
  }
  if (rename(whole.c_str(), partial.c_str()) != 0) {
    if (errno == ENOENT) return {};  // somebody else has removed it
    return fail_os(errno, "cannot remove it").within(whole.native());
  }
  return remove_own(partial, notes);
}

Status remove_partial_checkpoints(const fs::path& folder, std::vector<std::string>& notes) {
  return visit_names(folder, [&](std::string_view name) -> Status {
    std::string_view rest = name;
    if (!take_prefix(rest, kReplaced) && !take_prefix(rest, kPartial)) return {};
    if (!parse_checkpoint_name(rest.substr(0, rest.rfind('-')))) return {};
    const auto claimed = claim_folder(folder / name);
    if (!claimed) return {};  // another job is writing it
    return remove_own(folder / name, notes);
  });
}

}  // namespace millrace::bench
