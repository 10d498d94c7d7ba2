#include "cli/store/tars.h"

#include <sys/stat.h>

#include <cerrno>
#include <unordered_map>

#include "base/io/mapped_file.h"
#include "base/text/text.h"
#include "format/records/tar.h"

namespace millrace::cli {
namespace {

using format::TarKind;
using format::TarMember;

// "./a//b/" -> "a/b". What could leave the root stays as it is, and is refused later.
std::string plain_path(std::string_view path) {
  std::string out;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    if (at == 0 && name.empty()) out = "/";
    if (!name.empty() && name != ".") {
      if (!out.empty() && out != "/") out += '/';
      out += name;
    }
    at = end + 1;
  }
  return out;
}

class TarListing {
 public:
  explicit TarListing(store::TarSource& source) : source_(source) {}

  Status add(const std::string& path) {
    ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return fail_os(errno, "cannot read its status");
    const auto number = static_cast<uint32_t>(source_.tars.size());
    source_.tars.push_back({.path = path,
                            .info = {.name = {},
                                     .file_bytes = file.bytes().size(),
                                     .mtime_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 +
                                                 int64_t{status.st_mtim.tv_nsec}}});
    const ByteView bytes = file.bytes();
    const auto fetch = [&](uint64_t offset, size_t size) -> Result<ByteView> {
      if (offset > bytes.size() || size > bytes.size() - offset) {
        return fail(Errc::kCorrupt, "the archive ends at byte {}, inside of a header",
                    bytes.size());
      }
      return bytes.subspan(static_cast<size_t>(offset), size);
    };
    format::TarWalk walk(fetch, bytes.size());
    by_path_.clear();
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<TarMember> member, walk.next());
      if (!member) break;
      RETURN_IF_ERROR(add_member(*member, number));
    }
    if (walk.has_end_mark()) return {};
    return fail(Errc::kCorrupt,
                "the archive ends at byte {} without the empty blocks that end a tar: it was "
                "truncated. Copy or create it again",
                bytes.size());
  }

 private:
  Status add_member(const TarMember& member, uint32_t number) {
    store::Member made;
    made.path = plain_path(member.path);
    wire::CatalogueEntry& entry = made.entry;
    entry.mode = member.mode;
    entry.mtime_ns = member.mtime_ns;
    switch (member.kind) {
      case TarKind::kFile:
        entry.kind = wire::EntryKind::kFile;
        entry.partition = number;
        entry.offset_bytes = member.data_bytes;
        entry.size_bytes = entry.packed_bytes = member.size_bytes;
        break;
      case TarKind::kHardLink: {
        const auto first = by_path_.find(plain_path(member.target));
        if (first == by_path_.end()) {
          return fail(Errc::kCorrupt, "'{}' is a link to '{}', which is not before it in the tar",
                      printable(member.path), printable(member.target));
        }
        entry = source_.members[first->second].entry;
        break;
      }
      case TarKind::kSymbolicLink:
        entry.kind = wire::EntryKind::kLink;
        made.target = member.target;
        break;
      case TarKind::kDirectory:
        entry.kind = wire::EntryKind::kDirectory;
        break;
      case TarKind::kOther:
        return {};  // devices and pipes
    }
    if (entry.kind == wire::EntryKind::kFile) by_path_[made.path] = source_.members.size();
    source_.members.push_back(std::move(made));
    return {};
  }

  store::TarSource& source_;
  std::unordered_map<std::string, size_t> by_path_;  // the files of the current tar
};

}  // namespace

Result<store::TarSource> read_tars(const std::vector<std::string>& paths) {
  store::TarSource source;
  TarListing listing(source);
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(listing.add(path).within(printable(path)));
  }
  return source;
}

}  // namespace millrace::cli
