#include "store/pack/rebuild.h"

#include <algorithm>
#include <optional>

#include "base/concurrency/thread_pool.h"
#include "base/hash/crc32c.h"
#include "base/io/atomic_file.h"
#include "base/io/directory.h"
#include "base/io/mapped_file.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "store/pack/partition.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::EntryKind;
using wire::PartitionKind;

constexpr size_t kChecksumMembers = 64;  // in one task

// The members of partitions, and what was packed.
struct Collected {
  std::vector<Member> members;
  std::string origin;
};

Status collect_members(const Partition& partition, uint32_t number, Collected& out) {
  return partition.visit([&](const IndexRecord& record) -> Status {
    if (record.path.empty()) out.origin = record.target;
    out.members.push_back(member_of(record, number));
    return {};
  });
}

PartitionInfo info_of(const fs::path& path, const Partition& partition) {
  return {.name = path.filename().string(),
          .kind = partition.header().kind,
          .file_bytes = partition.bytes().size()};
}

Error missing_partition(uint32_t number, uint32_t count) {
  return fail(Errc::kNotFound, "partition {} of {} is missing; give all partitions of the pack",
              number, count);
}

// The partitions by their number: all of one pack, each once.
Result<std::vector<Partition>> open_all(const std::vector<fs::path>& paths,
                                        std::vector<PartitionInfo>& infos) {
  std::vector<std::optional<Partition>> found;
  for (const fs::path& path : paths) {
    ASSIGN_OR_RETURN(Partition opened, Partition::open(path));
    const wire::PackHeader header = opened.header();
    const std::string shown = printable(path.string());
    if (found.empty()) {
      // Each has at least a header, so a damaged count cannot fill the memory.
      if (header.partition_count > paths.size()) {
        return missing_partition(static_cast<uint32_t>(paths.size()), header.partition_count);
      }
      found.resize(header.partition_count);
      infos.resize(header.partition_count);
    }
    const bool is_same_pack =
        std::all_of(found.begin(), found.end(), [&](const std::optional<Partition>& other) {
          return !other || other->header().identity == header.identity;
        });
    if (!is_same_pack || header.number >= found.size() || found[header.number]) {
      return fail(Errc::kInvalidArgument,
                  "{}: is partition {} of another pack, or given twice; give each partition of one "
                  "pack once",
                  shown, header.number);
    }
    infos[header.number] = info_of(path, opened);
    found[header.number] = std::move(opened);
  }
  std::vector<Partition> all;
  for (uint32_t i = 0; i < found.size(); ++i) {
    if (!found[i]) return missing_partition(i, static_cast<uint32_t>(found.size()));
    all.push_back(*std::move(found[i]));
  }
  return all;
}

Status compute_checksums(TarSource& source) {
  std::vector<MappedFile> files;
  for (const TarPartition& tar : source.tars) {
    ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(tar.path));
    files.push_back(std::move(file));
  }
  const size_t threads = source.thread_count != 0 ? source.thread_count : usable_cpu_count();
  ThreadPool pool(threads);
  const size_t tasks = (source.members.size() + kChecksumMembers - 1) / kChecksumMembers;
  return pool.parallel_for(tasks, [&](size_t task) -> Status {
    const size_t end = std::min(source.members.size(), (task + 1) * kChecksumMembers);
    for (size_t i = task * kChecksumMembers; i < end; ++i) {
      wire::CatalogueEntry& entry = source.members[i].entry;
      if (entry.kind != EntryKind::kFile) continue;
      const ByteView bytes = files[entry.partition].bytes();
      if (entry.offset_bytes > bytes.size() ||
          entry.packed_bytes > bytes.size() - entry.offset_bytes) {
        return fail(Errc::kCorrupt, "{}: became shorter while it was read",
                    printable(source.tars[entry.partition].path.string()));
      }
      entry.crc32c = crc32c(bytes.subspan(static_cast<size_t>(entry.offset_bytes),
                                          static_cast<size_t>(entry.packed_bytes)));
      if (source.on_progress) source.on_progress(entry.packed_bytes);
    }
    return {};
  });
}

}  // namespace

Status refuse_complete_pack(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory / kCatalogueName, error)) return {};
  return fail(Errc::kAlreadyExists,
              "{}: has a complete pack already; remove it or choose another directory",
              printable(directory.string()));
}

Status make_pack_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  std::error_code ignored;
  if (fs::is_directory(directory, ignored)) return {};
  return fail_os(error ? error.value() : ENOTDIR, "cannot create the directory")
      .within(printable(directory.string()));
}

Status write_catalogue(const fs::path& directory, const CatalogueSource& source) {
  const std::string bytes = encode_catalogue(source);
  // What is wrong with it must come out before anyone relies on it.
  RETURN_IF_ERROR(check_catalogue(bytes_of(bytes)));
  return write_file_atomically(directory / kCatalogueName, bytes_of(bytes));
}

Result<std::string> catalogue_of_partition(const fs::path& path) {
  ASSIGN_OR_RETURN(const Partition partition, Partition::open(path));
  Collected collected;
  const std::string shown = printable(path.string());
  RETURN_IF_ERROR(collect_members(partition, 0, collected).within(shown));
  ASSIGN_OR_RETURN(const Tree tree, tree_of(std::move(collected.members)).within(shown));
  const std::vector<PartitionInfo> infos = {info_of(path, partition)};
  return encode_catalogue({.tree = tree,
                           .partitions = infos,
                           .origin = collected.origin,
                           .identity = partition.header().identity});
}

Status rebuild_catalogue(const std::vector<fs::path>& paths, const fs::path& directory) {
  for (const fs::path& path : paths) {
    std::error_code error;
    if (fs::equivalent(directory_of(path), directory, error)) continue;
    return fail(Errc::kInvalidArgument,
                "{}: a catalogue must be in the directory of its partitions; choose -o {}",
                printable(path.string()), printable(directory_of(path).string()));
  }
  RETURN_IF_ERROR(refuse_complete_pack(directory));
  std::vector<PartitionInfo> infos;
  ASSIGN_OR_RETURN(const std::vector<Partition> partitions, open_all(paths, infos));
  Collected collected;
  for (uint32_t i = 0; i < partitions.size(); ++i) {
    RETURN_IF_ERROR(collect_members(partitions[i], i, collected).within(printable(infos[i].name)));
  }
  ASSIGN_OR_RETURN(const Tree tree, tree_of(std::move(collected.members)));
  return write_catalogue(directory, {.tree = tree,
                                     .partitions = infos,
                                     .origin = collected.origin,
                                     .identity = partitions.front().header().identity});
}

Status catalogue_tars(TarSource source, const fs::path& directory) {
  RETURN_IF_ERROR(refuse_complete_pack(directory));
  RETURN_IF_ERROR(make_pack_directory(directory));
  RETURN_IF_ERROR(compute_checksums(source));
  std::vector<PartitionInfo> infos;
  for (const TarPartition& tar : source.tars) {
    PartitionInfo info = tar.info;
    info.kind = PartitionKind::kTar;
    std::error_code error;
    // Relative if it is next to the catalogue, so that both can be moved together.
    info.name = fs::equivalent(directory_of(tar.path), directory, error)
                    ? tar.path.filename().string()
                    : fs::absolute(tar.path).lexically_normal().string();
    infos.push_back(std::move(info));
  }
  ASSIGN_OR_RETURN(const Tree tree, tree_of(std::move(source.members)));
  return write_catalogue(directory,
                         {.tree = tree, .partitions = infos, .origin = {}, .identity = 0});
}

}  // namespace millrace::store
