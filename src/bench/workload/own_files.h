// own_files: which files of a folder a run has written, so that a later one may remove them and
// nothing else.
//
// A folder that a run may want to remove again has a list, `.millrace-files`: each file with its
// length, inode and time of modification. What is not in the list, or was changed or replaced
// since, belongs to somebody else: it stays, and so does its folder. The list of a run that was
// killed has only names, because its files were not complete. docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace::bench {

inline constexpr std::string_view kOwnFilesName = ".millrace-files";

struct OwnFile {
  std::string name;

  // The identity of a complete file.
  struct Identity {
    uint64_t size_bytes = 0;
    uint64_t inode = 0;
    int64_t modified_ns = 0;

    bool operator==(const Identity&) const = default;
  };
  std::optional<Identity> identity = {};  // nullopt: not complete yet
};

// The complete files of these names. Fails if one is missing.
Result<std::vector<OwnFile>> look_at_files(const std::filesystem::path& folder,
                                           std::span<const std::string> names);

// A line for each file, and back. Lines that are not valid are skipped: their files are foreign.
std::string own_files_text(std::span<const OwnFile> files);
std::vector<OwnFile> parse_own_files(std::string_view text);

// Writes the list, `.millrace-files` with `suffix`: a folder may have several.
Status write_own_files(const std::filesystem::path& folder, std::string_view text,
                       std::string_view suffix = "");

// A folder that a run is writing, locked, so that others do not take it for what a killed run left.
// The kernel unlocks it however the run ends. On file systems without locks for folders, as NFS,
// nobody can tell.
Result<File> hold_folder(const std::filesystem::path& folder);

// To remove a folder: nullopt if a run holds it. Nobody can hold it while the file is open.
std::optional<File> claim_folder(const std::filesystem::path& folder);

// The entries that no run has written, or that were changed since. All of a folder without a list;
// the path itself if it is not a folder. Nothing if it does not exist.
Result<std::vector<std::string>> find_foreign(const std::filesystem::path& folder);

// The entries that are ours.
Result<std::vector<std::string>> find_own(const std::filesystem::path& folder);

// Removes the files for which `is_ours(name)`, and the folder if nothing is left. Returns what is.
Result<std::vector<std::string>> remove_files_if(
    const std::filesystem::path& folder, const std::function<bool(const std::string&)>& is_ours);

// The time of a regular file, in nanoseconds since 1970. Nullopt if there is none.
std::optional<int64_t> modified_ns_of(const std::filesystem::path& path);

// Removes the files that are ours; and if no others are left, the lists and the folder. Returns the
// foreign ones.
Result<std::vector<std::string>> remove_own_files(const std::filesystem::path& folder);

}  // namespace millrace::bench
