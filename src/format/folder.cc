#include "format/folder.h"

#include <algorithm>
#include <limits>

namespace millrace::format {
namespace {

std::string child(const std::string& directory, std::string_view name) {
  std::string path = directory;
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

bool ends_in_one_of(std::string_view name, std::span<const std::string> extensions) {
  const auto same_letter = [](char a, char b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(a) == lower(b);
  };
  return extensions.empty() ||
         std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
           return name.size() >= extension.size() &&
                  std::equal(extension.begin(), extension.end(),
                             name.end() - static_cast<ptrdiff_t>(extension.size()), same_letter);
         });
}

class TreeList {
 public:
  TreeList(const io::Listing& listing, std::span<const std::string> extensions)
      : listing_(listing), extensions_(extensions) {}

  Status add(const std::string& path) {
    ASSIGN_OR_RETURN(const io::DirectoryIdentity identity, listing_.identity(path));
    if (std::find(above_.begin(), above_.end(), identity) != above_.end()) {
      return fail(Errc::kInvalidArgument,
                  "{}: this link leads back to a directory that contains it; remove it", path);
    }
    DirectoryFiles files{.directory = path, .text = {}, .name_begins = {}};
    std::vector<std::string> directories;
    RETURN_IF_ERROR(
        listing_.visit(path, [&](std::string_view name, const Result<io::ListedKind>& kind) {
          return add_entry({path, name, kind}, files, directories);
        }));
    if (!files.name_begins.empty()) found_.push_back(std::move(files));
    above_.push_back(identity);
    for (const std::string& directory : directories) RETURN_IF_ERROR(add(child(path, directory)));
    above_.pop_back();
    return {};
  }

  std::vector<DirectoryFiles> finish() && {
    std::sort(found_.begin(), found_.end(), [](const DirectoryFiles& a, const DirectoryFiles& b) {
      return a.directory < b.directory;
    });
    for (DirectoryFiles& files : found_) {
      const char* text = files.text.c_str();
      std::sort(files.name_begins.begin(), files.name_begins.end(), [&](uint32_t a, uint32_t b) {
        return std::string_view(text + a) < std::string_view(text + b);
      });
    }
    return std::move(found_);
  }

 private:
  struct Found {
    const std::string& directory;
    std::string_view name;
    const Result<io::ListedKind>& kind;
  };

  Status add_entry(const Found& found, DirectoryFiles& files,
                   std::vector<std::string>& directories) {
    const auto& [directory, name, kind] = found;
    // Ignores broken links with other extensions: they must not fail the whole dataset.
    const bool may_be_file = ends_in_one_of(name, extensions_);
    if (!kind.ok()) return may_be_file ? Status(kind.error()) : Status();
    if (*kind == io::ListedKind::kDirectory) directories.emplace_back(name);
    if (*kind != io::ListedKind::kFile || !may_be_file) return {};
    if (files.text.size() > std::numeric_limits<uint32_t>::max() - name.size() - 1) {
      return fail(Errc::kUnsupported, "{}: too many files in one directory; use subdirectories",
                  directory);
    }
    files.name_begins.push_back(static_cast<uint32_t>(files.text.size()));
    files.text += name;
    files.text += '\0';
    return {};
  }

  const io::Listing& listing_;
  std::span<const std::string> extensions_;
  std::vector<DirectoryFiles> found_;
  std::vector<io::DirectoryIdentity> above_;
};

}  // namespace

Result<std::vector<DirectoryFiles>> list_tree(const io::Listing& listing, const std::string& root,
                                              std::span<const std::string> extensions) {
  TreeList list(listing, extensions);
  RETURN_IF_ERROR(list.add(root));
  return std::move(list).finish();
}

Result<std::vector<std::string>> list_directories(const io::Listing& listing,
                                                  const std::string& root) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(
      listing.visit(root, [&](std::string_view name, const Result<io::ListedKind>& kind) -> Status {
        if (kind.ok() && *kind == io::ListedKind::kDirectory) names.emplace_back(name);
        return {};
      }));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace::format
