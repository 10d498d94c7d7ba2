// A catalogue of many files: its memory, and the time to make it, to check it and to find a path.
//
// Writes PACKS/catalogue of a pack that has no partition files: enough for listings, with
// `millrace store up --pack PACKS --at ROOT --origin DIR`. Directories have 1,000 files each.
// usage: bench_store_catalogue PACKS [FILE_COUNT]
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/atomic_file.h"
#include "base/numbers/counter_random.h"
#include "base/system/clock.h"
#include "benchmarks/must.h"
#include "store/pack/catalogue.h"

namespace {

using namespace millrace;

constexpr uint64_t kPerDirectory = 1000;
constexpr uint64_t kLookups = 2'000'000;

void add(store::Tree& tree, const std::string& name, uint32_t parent, wire::EntryKind kind) {
  wire::CatalogueEntry entry{};
  entry.kind = kind;
  entry.mode = kind == wire::EntryKind::kFile ? 0644 : 0755;
  entry.mtime_ns = 1'700'000'000'000'000'000;
  entry.parent = parent;
  entry.name_offset = tree.names.size();
  entry.name_bytes = static_cast<uint8_t>(name.size());
  if (kind == wire::EntryKind::kFile) {
    entry.size_bytes = entry.packed_bytes = 110'000;
    entry.offset_bytes = 64;
  }
  tree.names += name;
  tree.entries.push_back(entry);
}

std::string directory_name(uint64_t index) { return fmt::format("n{:08}", index); }
std::string file_name(uint64_t index) {
  return fmt::format("{}_{:08}.JPEG", directory_name(index / kPerDirectory), index);
}

store::Tree make_tree(uint64_t file_count) {
  store::Tree tree;
  const uint64_t directory_count = (file_count + kPerDirectory - 1) / kPerDirectory;
  add(tree, "", 0, wire::EntryKind::kDirectory);
  tree.entries[0].size_bytes = directory_count;
  tree.entries[0].offset_bytes = 1;
  for (uint64_t i = 0; i < directory_count; ++i) {
    add(tree, directory_name(i), 0, wire::EntryKind::kDirectory);
  }
  for (uint64_t i = 0; i < file_count; ++i) {
    const uint64_t directory = 1 + i / kPerDirectory;
    wire::CatalogueEntry& parent = tree.entries[directory];
    if (parent.size_bytes++ == 0) parent.offset_bytes = tree.entries.size();
    add(tree, file_name(i), static_cast<uint32_t>(directory), wire::EntryKind::kFile);
  }
  return tree;
}

double seconds_since(std::chrono::nanoseconds begin) {
  return std::chrono::duration<double>(monotonic_now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace millrace;
  if (argc < 2) bench::give_up("usage: bench_store_catalogue PACKS [FILE_COUNT]");
  const std::filesystem::path packs = argv[1];
  const uint64_t file_count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000'000;
  std::filesystem::create_directories(packs);
  const std::filesystem::path path = packs / store::kCatalogueName;

  std::chrono::nanoseconds begin = monotonic_now();
  {
    const store::Tree tree = make_tree(file_count);
    fmt::print("tree           {:8.2f} s\n", seconds_since(begin));
    begin = monotonic_now();
    const std::vector<store::PartitionInfo> partitions = {
        {.name = "part-00000.pack", .file_bytes = 200'000}};
    const std::string bytes = store::encode_catalogue({tree, partitions, "", 1});
    fmt::print("encode         {:8.2f} s\n", seconds_since(begin));
    bench::must(write_file_atomically(path, bytes_of(bytes)));
  }
  begin = monotonic_now();
  const store::Catalogue catalogue = bench::must(store::Catalogue::open(path));
  fmt::print("open and check {:8.2f} s\n", seconds_since(begin));
  fmt::print("memory         {:8.1f} bytes per file\n",
             static_cast<double>(catalogue.size_bytes()) / static_cast<double>(file_count));

  CounterRandom random(1, 2);
  std::vector<std::string> wanted;
  for (uint64_t i = 0; i < kLookups; ++i) {
    const uint64_t index = random.next() % file_count;
    wanted.push_back(directory_name(index / kPerDirectory) + "/" + file_name(index));
  }
  begin = monotonic_now();
  uint64_t found = 0;
  for (const std::string& name : wanted) found += catalogue.find(name).has_value() ? 1 : 0;
  const double seconds = seconds_since(begin);
  if (found != kLookups) bench::give_up("some paths were not found");
  fmt::print("lookup         {:8.0f} ns, of random paths\n",
             seconds * 1e9 / static_cast<double>(kLookups));
  return 0;
}
