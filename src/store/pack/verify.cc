#include "store/pack/verify.h"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "store/pack/partition.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::EntryKind;
using wire::PartitionKind;

constexpr uint32_t kTaskMembers = 64;

class Verification {
 public:
  Verification(const PackReader& reader, const VerifyOptions& options, comm::Comm& comm)
      : reader_(reader),
        catalogue_(reader.catalogue()),
        options_(options),
        comm_(comm),
        file_counts_(catalogue_.partition_count()) {}

  Result<std::vector<std::string>> run() {
    if (is_mine(0)) note(check_lookups(catalogue_));
    for (uint32_t i = 0; i < catalogue_.entry_count(); ++i) {
      const CatalogueEntry entry = catalogue_.entry(i);
      if (entry.kind == EntryKind::kFile) ++file_counts_[entry.partition];
    }
    for (uint32_t i = 0; i < catalogue_.partition_count(); ++i) {
      if (is_mine(i)) check_index(i);
    }
    if (is_mine(0)) check_overlaps();
    check_members();
    return problems_of_all();
  }

 private:
  // Whether this rank has that part of the work.
  bool is_mine(size_t part) const { return part % comm_.size() == comm::index_of(comm_.rank()); }

  Result<std::vector<std::string>> problems_of_all() const {
    std::string mine;
    {
      const MutexLock lock(mutex_);
      for (const std::string& problem : problems_) mine += problem + '\n';  // each is one line
    }
    ASSIGN_OR_RETURN(const auto lists, comm_.gather_to_all(bytes_of(mine)));
    std::istringstream text(join(lists, ""));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) all.push_back(std::move(line));
    return all;
  }

  void note(const Status& status) {
    if (status.ok()) return;
    const MutexLock lock(mutex_);
    problems_.push_back(status.error().message());
  }

  // Each record of the index is an entry of the catalogue, with the same values.
  void check_index(uint32_t number) {
    const Result<MappedFile>& file = reader_.partition_file(number);
    if (!file.ok()) return note(file.error());
    if (catalogue_.partition(number).kind == PartitionKind::kTar) return;
    const std::string shown = printable(catalogue_.partition_name(number));
    const auto partition = Partition::open(reader_.partition_path(number));
    if (!partition.ok()) return note(partition.error());
    uint64_t files = 0;
    note(partition
             ->visit([&](const IndexRecord& record) -> Status {
               files += record.fields.kind == EntryKind::kFile ? 1 : 0;
               return compare(record, number);
             })
             .within(shown));
    if (files == file_counts_[number]) return;
    note(fail(Errc::kCorrupt, "{}: its index has {} files, but the catalogue has {} in it", shown,
              files, file_counts_[number]));
  }

  Status compare(const IndexRecord& record, uint32_t number) const {
    const auto index = catalogue_.find(record.path);
    if (!index) {
      return fail(Errc::kCorrupt, "'{}' is in the index, but not in the catalogue",
                  printable(record.path));
    }
    const CatalogueEntry entry = catalogue_.entry(*index);
    const wire::PackRecord& fields = record.fields;
    bool is_same = entry.kind == fields.kind && entry.mode == fields.mode &&
                   entry.mtime_ns == fields.mtime_ns && entry.flags == fields.flags;
    if (entry.kind == EntryKind::kFile) {
      is_same = is_same && entry.partition == number && entry.size_bytes == fields.size_bytes &&
                entry.offset_bytes == fields.offset_bytes &&
                entry.packed_bytes == fields.packed_bytes && entry.crc32c == fields.crc32c &&
                entry.codec == fields.codec && entry.shuffle == fields.shuffle;
    }
    if (entry.kind == EntryKind::kLink) {
      is_same = is_same && catalogue_.link_target(*index) == record.target;
    }
    if (is_same) return {};
    return fail(Errc::kCorrupt,
                "'{}' in the index differs from the catalogue; rebuild the catalogue with "
                "`millrace store pack PARTITIONS`",
                printable(record.path));
  }

  // Files have places of their own, or exactly the same place (hard links).
  void check_overlaps() {
    std::vector<uint32_t> files;
    for (uint32_t i = 0; i < catalogue_.entry_count(); ++i) {
      const CatalogueEntry entry = catalogue_.entry(i);
      if (entry.kind == EntryKind::kFile && entry.packed_bytes != 0) files.push_back(i);
    }
    const auto key = [&](uint32_t i) {
      const CatalogueEntry entry = catalogue_.entry(i);
      return std::tuple(entry.partition, entry.offset_bytes, entry.packed_bytes);
    };
    std::sort(files.begin(), files.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (size_t i = 1; i < files.size(); ++i) {
      const CatalogueEntry before = catalogue_.entry(files[i - 1]);
      const CatalogueEntry entry = catalogue_.entry(files[i]);
      if (before.partition != entry.partition || key(files[i - 1]) == key(files[i])) continue;
      if (before.offset_bytes + before.packed_bytes <= entry.offset_bytes) continue;
      note(fail(Errc::kCorrupt, "{}: overlaps with '{}', which ends at byte {}",
                describe_member(catalogue_, files[i]), printable(catalogue_.path(files[i - 1])),
                before.offset_bytes + before.packed_bytes));
    }
  }

  void check_members() {
    ThreadPool pool(options_.thread_count != 0 ? options_.thread_count : usable_cpu_count());
    const uint32_t count = catalogue_.entry_count();
    const uint32_t tasks = (count + kTaskMembers - 1) / kTaskMembers;
    note(pool.parallel_for(tasks, [&](size_t task) -> Status {
      if (!is_mine(task)) return {};
      thread_local BlockCodec codec;
      const auto begin = static_cast<uint32_t>(task) * kTaskMembers;
      for (uint32_t i = begin; i < std::min(count, begin + kTaskMembers); ++i) {
        const CatalogueEntry entry = catalogue_.entry(i);
        if (entry.kind != EntryKind::kFile) continue;
        if (!reader_.partition_file(entry.partition).ok()) continue;  // noted already
        note(reader_.read_blocks(i, codec, [](ByteView) { return Status(); }));
        if (options_.on_verified) options_.on_verified(entry.size_bytes);
      }
      return {};
    }));
  }

  const PackReader& reader_;
  const Catalogue& catalogue_;
  const VerifyOptions& options_;
  comm::Comm& comm_;
  std::vector<uint64_t> file_counts_;  // of the catalogue, by partition
  mutable Mutex mutex_;
  std::vector<std::string> problems_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::vector<std::string>> verify_pack(const PackReader& reader, const VerifyOptions& options,
                                             comm::Comm& comm) {
  return Verification(reader, options, comm).run();
}

}  // namespace millrace::store
