#include "store/pack/extract.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/concurrency/thread_pool.h"
#include "base/io/file.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "hook/glob.h"
#include "store/pack/open_below.h"
#include "store/pack/sparse_writer.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::CatalogueEntry;
using wire::EntryKind;

constexpr size_t kTaskFiles = 64;

// The files belong to whoever extracts them, not to their former owner. A program that ran with
// the rights of that one would now run with the rights of this one. A directory keeps the sticky
// bit, which only takes rights away.
unsigned extracted_mode(const CatalogueEntry& entry) {
  const unsigned kept = entry.kind == EntryKind::kDirectory ? 01777 : 0777;
  return entry.mode & kept;
}

class Extraction {
 public:
  Extraction(const PackReader& reader, const ExtractOptions& options, comm::Comm& comm)
      : reader_(reader), catalogue_(reader.catalogue()), options_(options), comm_(comm) {}

  Result<ExtractReport> run() {
    const bool is_first = comm_.rank() == comm::kFirstRank;
    select();
    RETURN_IF_ERROR(comm_.agree(is_first ? make_directories() : Status()));
    RETURN_IF_ERROR(comm_.agree(write_files()));
    RETURN_IF_ERROR(comm_.agree(is_first ? finish() : Status()));
    return report_;
  }

 private:
  Status make_directories() {
    RETURN_IF_ERROR(make_top());
    for (const uint32_t i : directories_) RETURN_IF_ERROR(shown(i, make_directory(i)));
    return {};
  }

  Status write_files() {
    if (!top_.is_open()) {
      ASSIGN_OR_RETURN(top_, open_directory(options_.directory.string()));
    }
    ThreadPool pool(options_.thread_count != 0 ? options_.thread_count : usable_cpu_count());
    const size_t tasks = (files_.size() + kTaskFiles - 1) / kTaskFiles;
    return pool.parallel_for(tasks, [&](size_t task) -> Status {
      if (task % comm_.size() != comm::index_of(comm_.rank())) return {};
      BlockCodec codec;
      const size_t end = std::min(files_.size(), (task + 1) * kTaskFiles);
      for (size_t i = task * kTaskFiles; i < end; ++i) {
        RETURN_IF_ERROR(shown(files_[i], write_file(files_[i], codec)));
      }
      return {};
    });
  }

  Status finish() {
    for (const uint32_t i : links_) RETURN_IF_ERROR(shown(i, make_link(i)));
    // From the bottom up: a new file changes the time of its directory, and a mode may forbid it.
    for (size_t i = directories_.size(); i > 0; --i) {
      // An empty directory that was there is the user's, with the mode that they gave it.
      if (directories_[i - 1] == wire::kRootEntry && !made_top_) continue;
      RETURN_IF_ERROR(shown(directories_[i - 1], finish_directory(directories_[i - 1])));
    }
    return {};
  }

  Status shown(uint32_t index, Status status) const {
    if (status.ok()) return status;
    const std::string path = (options_.directory / catalogue_.path(index)).string();
    return std::move(status).within(printable(path));
  }

  // What the globs choose, and the directories above it.
  void select() {
    const uint32_t count = catalogue_.entry_count();
    std::vector<bool> is_wanted(count, options_.globs.empty());
    for (uint32_t i = count; i > 0 && !options_.globs.empty(); --i) {
      const uint32_t index = i - 1;
      const std::string path = catalogue_.path(index);
      is_wanted[index] =
          is_wanted[index] ||
          std::any_of(options_.globs.begin(), options_.globs.end(),
                      [&](const std::string& glob) { return hook::glob_matches(glob, path); });
      if (is_wanted[index]) is_wanted[catalogue_.entry(index).parent] = true;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (!is_wanted[i]) continue;
      const CatalogueEntry entry = catalogue_.entry(i);
      const bool has_mode = entry.kind != EntryKind::kLink;
      if (has_mode && extracted_mode(entry) != entry.mode) ++report_.changed_mode_count;
      if (entry.kind == EntryKind::kDirectory) directories_.push_back(i);
      if (entry.kind == EntryKind::kLink) links_.push_back(i);
      if (entry.kind != EntryKind::kFile) continue;
      files_.push_back(i);
      ++report_.file_count;
      report_.size_bytes += entry.size_bytes;
    }
  }

  Status make_top() {
    std::error_code error;
    const std::string name = printable(options_.directory.string());
    if (files_.empty() && links_.empty() && !options_.globs.empty()) {
      return fail(Errc::kNotFound, "no file of the pack matches; see `millrace store list`");
    }
    made_top_ = !fs::exists(options_.directory, error);
    fs::create_directories(options_.directory, error);
    if (error && !fs::is_directory(options_.directory)) {
      return fail_os(error.value(), "cannot create the directory").within(name);
    }
    if (!fs::is_empty(options_.directory, error)) {
      return fail(Errc::kAlreadyExists, "{}: is not empty; choose a new directory", name);
    }
    ASSIGN_OR_RETURN(top_, open_directory(options_.directory.string()));
    return {};
  }

  Status make_directory(uint32_t index) {
    if (index == wire::kRootEntry) return {};
    const std::string path = catalogue_.path(index);
    ASSIGN_OR_RETURN(const File parent, open_parent(top_, path));
    if (::mkdirat(parent.fd(), base_name(path).c_str(), 0700) != 0) {
      return fail_os(errno, "cannot create the directory");
    }
    return {};
  }

  Status write_file(uint32_t index, BlockCodec& codec) {
    const CatalogueEntry entry = catalogue_.entry(index);
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    ASSIGN_OR_RETURN(File file, open_below(top_, catalogue_.path(index), kFlags, 0600));
    SparseWriter writer(file);
    RETURN_IF_ERROR(reader_.read_blocks(index, codec, [&](ByteView block) -> Status {
      RETURN_IF_ERROR(writer.add(block));
      if (options_.on_extracted) options_.on_extracted(block.size());
      return {};
    }));
    RETURN_IF_ERROR(writer.finish());
    RETURN_IF_ERROR(set_mode_and_time(file, extracted_mode(entry), entry.mtime_ns));
    return file.close();
  }

  Status make_link(uint32_t index) {
    return make_link_below(top_, catalogue_.path(index), catalogue_.link_target(index),
                           catalogue_.entry(index).mtime_ns);
  }

  Status finish_directory(uint32_t index) {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    ASSIGN_OR_RETURN(const File directory, open_below(top_, catalogue_.path(index), kFlags));
    const CatalogueEntry entry = catalogue_.entry(index);
    return set_mode_and_time(directory, extracted_mode(entry), entry.mtime_ns);
  }

  const PackReader& reader_;
  const Catalogue& catalogue_;
  const ExtractOptions& options_;
  comm::Comm& comm_;
  File top_;
  bool made_top_ = false;              // on the first rank
  std::vector<uint32_t> directories_;  // parents first
  std::vector<uint32_t> files_;
  std::vector<uint32_t> links_;
  ExtractReport report_;
};

}  // namespace

Result<ExtractReport> extract_pack(const PackReader& reader, const ExtractOptions& options,
                                   comm::Comm& comm) {
  return Extraction(reader, options, comm).run();
}

}  // namespace millrace::store
