#include "store/pack/packer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/concurrency/thread_pool.h"
#include "base/io/directory.h"
#include "base/system/clock.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "store/pack/catalogue.h"
#include "store/pack/lz4.h"
#include "store/pack/open_below.h"
#include "store/pack/partition.h"
#include "store/pack/partition_writer.h"
#include "store/pack/plan.h"
#include "store/pack/rebuild.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::CatalogueEntry;
using wire::EntryKind;
using wire::PackHeader;

// A partition under construction. If it is not finished, its file is removed.
class NewPartition {
 public:
  static Result<NewPartition> create(const fs::path& path) {
    NewPartition made;
    made.path_ = path;
    made.partial_ = path.parent_path() / fmt::format(".{}.partial", path.filename().string());
    ASSIGN_OR_RETURN(made.file_,
                     File::open(made.partial_, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666));
    // The file of a killed packer is used again. That of a running one is not, nor one that another
    // packer has completed and renamed since it was opened.
    if (::flock(made.file_.fd(), LOCK_EX | LOCK_NB) != 0 ||
        !is_same_file(made.file_, made.partial_)) {
      made.partial_.clear();
      return fail(Errc::kAlreadyExists, "{}: another process is writing it; wait for it",
                  printable(path.string()));
    }
    if (!made.is_of_a_packer()) {
      return fail(Errc::kAlreadyExists,
                  "{}: millrace did not write it; remove it, or choose another directory",
                  printable(std::exchange(made.partial_, {}).string()));
    }
    if (::ftruncate(made.file_.fd(), 0) != 0) {
      return fail_os(errno, "cannot truncate it").within(printable(made.partial_.string()));
    }
    return made;
  }

  NewPartition(NewPartition&& other) noexcept = default;
  NewPartition& operator=(NewPartition&&) = delete;
  ~NewPartition() {
    if (file_.is_open() && !partial_.empty()) ::unlink(partial_.c_str());
  }

  const File& file() const { return file_; }

  Status finish() {
    const auto seal = [&]() -> Status {
      RETURN_IF_ERROR(file_.sync());
      if (const int error = rename_to_new(partial_, path_); error != 0) {
        return fail_os(error, "cannot rename the complete file to it");
      }
      partial_.clear();
      return file_.close();
    };
    return seal().within(printable(path_.string()));
  }

 private:
  NewPartition() = default;

  // A packer begins with the header, and its file has one name.
  bool is_of_a_packer() const {
    struct stat status{};
    if (::fstat(file_.fd(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1)
      return false;
    uint64_t magic = 0;
    return status.st_size == 0 ||
           (file_.read_exactly_at(0, std::as_writable_bytes(std::span(&magic, 1))).ok() &&
            magic == wire::kPackMagic);
  }

  fs::path path_;
  fs::path partial_;
  File file_;
};

class Packing {
 public:
  Packing(const PackOptions& options, comm::Comm& comm) : options_(options), comm_(comm) {}

  Result<PackReport> run() {
    const auto begin = monotonic_now();
    RETURN_IF_ERROR(prepare());
    RETURN_IF_ERROR(comm_.agree(write_partitions()));
    RETURN_IF_ERROR(comm_.reduce_to_all(std::span(&kept_count_, 1), comm::Fold::kSum));
    report_.kept_count = static_cast<uint32_t>(kept_count_);
    RETURN_IF_ERROR(comm_.agree(comm_.rank() == comm::kFirstRank ? write_result() : Status()));
    report_.seconds = std::chrono::duration<double>(monotonic_now() - begin).count();
    return std::move(report_);
  }

 private:
  // Rank 0 lists the source; the others get the plan.
  Status prepare() {
    std::string bytes;
    if (comm_.rank() == comm::kFirstRank) {
      const Status planned = list_source();
      if (!planned.ok()) return comm_.agree(planned);
      if (comm_.size() > 1) bytes = encode_plan(plan_);
    }
    if (comm_.size() > 1) {
      RETURN_IF_ERROR(comm_.broadcast(bytes, comm::kFirstRank));
      if (comm_.rank() != comm::kFirstRank) {
        ASSIGN_OR_RETURN(plan_, decode_plan(bytes));
      }
    }
    return {};
  }

  Result<Tree> chosen_files() const {
    std::vector<Member> members;
    ASSIGN_OR_RETURN(const File source, open_directory(options_.source.string()));
    for (const std::string& path : options_.files) {
      RETURN_IF_ERROR(check_path(path).within(printable(path)));
      ASSIGN_OR_RETURN(
          const File file,
          open_below(source, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).within(printable(path)));
      struct stat status{};
      if (::fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return fail(Errc::kInvalidArgument, "{}: is not a file", printable(path));
      }
      Member member{.path = path, .target = {}};
      member.entry.kind = EntryKind::kFile;
      member.entry.size_bytes = static_cast<uint64_t>(status.st_size);
      member.entry.mode = status.st_mode & 07777;
      member.entry.mtime_ns = ns_of(status.st_mtim);
      members.push_back(std::move(member));
    }
    return tree_of(std::move(members));
  }

  Status list_source() {
    std::error_code error;
    if (options_.codec == CodecChoice::kLz4) RETURN_IF_ERROR(check_lz4());
    RETURN_IF_ERROR(refuse_complete_pack(options_.directory));
    const fs::path target = fs::weakly_canonical(fs::absolute(options_.directory), error);
    const fs::path source = fs::weakly_canonical(fs::absolute(options_.source), error);
    const fs::path below = target.lexically_relative(source);
    if (!below.empty() && *below.begin() != "..") {
      return fail(Errc::kInvalidArgument,
                  "{}: is inside of the directory that is packed; choose another place",
                  printable(options_.directory.string()));
    }
    ASSIGN_OR_RETURN(Tree tree, options_.files.empty()
                                    ? walk_directory(options_.source.string(), report_.skipped,
                                                     options_.on_listed)
                                    : chosen_files());
    ASSIGN_OR_RETURN(plan_, make_plan(std::move(tree), options_));
    plan_.origin = fs::canonical(options_.source, error).string();
    return make_pack_directory(options_.directory);
  }

  // Writes the partitions of this rank that are not complete yet.
  Status write_partitions() {
    const auto count = static_cast<uint32_t>(plan_.partitions.size());
    std::vector<bool> is_mine(count);
    for (uint32_t i = comm::index_of(comm_.rank()); i < count; i += comm_.size()) {
      ASSIGN_OR_RETURN(const bool is_complete, has_complete(i));
      is_mine[i] = !is_complete;
      kept_count_ += is_complete ? 1 : 0;
    }
    std::vector<std::vector<uint32_t>> records(count);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan_.tree.entries.size(); ++i) {
      const CatalogueEntry& entry = plan_.tree.entries[i];
      if (!is_mine[entry.partition]) continue;
      records[entry.partition].push_back(i);
      if (entry.kind == EntryKind::kFile) bytes += entry.size_bytes;
    }
    if (options_.begin) options_.begin(bytes);
    ASSIGN_OR_RETURN(const File source, open_directory(options_.source.string()));
    const size_t threads = options_.thread_count != 0 ? options_.thread_count : usable_cpu_count();
    ThreadPool pool(std::max<size_t>(1, threads - 1));  // the calling thread works too
    for (uint32_t i = 0; i < count; ++i) {
      if (is_mine[i]) RETURN_IF_ERROR(write_partition(i, records[i], source, pool));
    }
    return sync_directory(options_.directory);
  }

  fs::path path_of(uint32_t number) const {
    return options_.directory / partition_name(plan_, number);
  }

  // Whether an earlier run has completed the partition.
  Result<bool> has_complete(uint32_t number) const {
    const fs::path path = path_of(number);
    std::error_code error;
    if (!fs::exists(path, error)) return false;
    ASSIGN_OR_RETURN(const Partition found, Partition::open(path));
    if (found.header().identity == plan_.identity) return true;
    return fail(Errc::kAlreadyExists,
                "{}: belongs to another pack; remove it or choose another directory",
                printable(path.string()));
  }

  // The earlier name of a file that has two; nullptr if it has not.
  const SameFile* same_file(uint32_t entry) const {
    const auto& all = plan_.tree.same_file;
    const auto found =
        std::lower_bound(all.begin(), all.end(), entry,
                         [](const SameFile& same, uint32_t wanted) { return same.entry < wanted; });
    return found != all.end() && found->entry == entry ? &*found : nullptr;
  }

  Status write_partition(uint32_t number, const std::vector<uint32_t>& records, const File& source,
                         ThreadPool& pool) {
    const fs::path path = path_of(number);
    ASSIGN_OR_RETURN(NewPartition made, NewPartition::create(path));
    const auto write = [&]() -> Status {
      const PackHeader header = make_header(number, static_cast<uint32_t>(plan_.partitions.size()),
                                            plan_.partitions[number], plan_.identity);
      RETURN_IF_ERROR(made.file().write_at(0, std::as_bytes(std::span(&header, 1))));
      std::vector<uint32_t> files;
      for (const uint32_t i : records) {
        if (plan_.tree.entries[i].kind == EntryKind::kFile && same_file(i) == nullptr) {
          files.push_back(i);
        }
      }
      ASSIGN_OR_RETURN(const uint64_t end, write_members({.tree = plan_.tree,
                                                          .files = std::move(files),
                                                          .source = source,
                                                          .codec = options_.codec,
                                                          .on_packed = options_.on_packed},
                                                         made.file(), sizeof(header), pool));
      return made.file().write_at(end, bytes_of(make_index(records, end)));
    };
    RETURN_IF_ERROR(write().within(printable(path.string())));
    return made.finish();
  }

  std::string make_index(const std::vector<uint32_t>& records, uint64_t end_bytes) {
    IndexWriter index;
    Tree& tree = plan_.tree;
    for (const uint32_t i : records) {
      if (const SameFile* same = same_file(i); same != nullptr) {
        set_place(tree.entries[i], tree.entries[same->first]);
      }
      index.add(i, tree.entries[i], tree.path(i), i == 0 ? plan_.origin : tree.link_target(i));
    }
    return std::move(index).finish(plan_.identity, end_bytes);
  }

  template <typename From>
  static void set_place(CatalogueEntry& entry, const From& from) {
    entry.offset_bytes = from.offset_bytes;
    entry.packed_bytes = from.packed_bytes;
    entry.crc32c = from.crc32c;
    entry.codec = from.codec;
    entry.shuffle = from.shuffle;
  }

  // Reads the places of all files from the partitions, since other ranks and earlier runs have
  // written some of them, and writes the catalogue.
  Status write_result() {
    std::vector<PartitionInfo> infos;
    for (uint32_t i = 0; i < plan_.partitions.size(); ++i) {
      const fs::path path = path_of(i);
      ASSIGN_OR_RETURN(const Partition partition, Partition::open(path));
      infos.push_back({.name = partition_name(plan_, i),
                       .kind = plan_.partitions[i],
                       .file_bytes = partition.bytes().size()});
      report_.pack_bytes += partition.bytes().size();
      const auto take = [&](const IndexRecord& record) { return take_record(record, i); };
      RETURN_IF_ERROR(partition.visit(take).within(printable(path.string())));
    }
    for (const CatalogueEntry& entry : plan_.tree.entries) {
      if (entry.kind != EntryKind::kFile) continue;
      ++report_.file_count;
      report_.content_bytes += entry.size_bytes;
      report_.raw_count += entry.codec == wire::PackCodec::kRaw ? 1 : 0;
    }
    report_.partition_count = static_cast<uint32_t>(plan_.partitions.size());
    RETURN_IF_ERROR(write_catalogue(options_.directory, {.tree = plan_.tree,
                                                         .partitions = infos,
                                                         .origin = plan_.origin,
                                                         .identity = plan_.identity}));
    std::error_code error;
    report_.catalogue_bytes = fs::file_size(options_.directory / kCatalogueName, error);
    return {};
  }

  Status take_record(const IndexRecord& record, uint32_t partition) {
    const wire::PackRecord& fields = record.fields;
    if (fields.kind != EntryKind::kFile) return {};
    if (fields.entry >= plan_.tree.entries.size() ||
        plan_.tree.entries[fields.entry].partition != partition ||
        plan_.tree.entries[fields.entry].size_bytes != fields.size_bytes) {
      return fail(Errc::kCorrupt, "'{}' is not what was planned; remove the file and pack again",
                  printable(record.path));
    }
    set_place(plan_.tree.entries[fields.entry], fields);
    return {};
  }

  const PackOptions& options_;
  comm::Comm& comm_;
  PackPlan plan_;
  PackReport report_;
  uint64_t kept_count_ = 0;
};

}  // namespace

Result<PackReport> pack_directory(const PackOptions& options, comm::Comm& comm) {
  return Packing(options, comm).run();
}

}  // namespace millrace::store
