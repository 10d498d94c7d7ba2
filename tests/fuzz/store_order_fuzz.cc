// The order of a loader, which the service of a node follows: whatever is written to its file, and
// whenever, the service lives, stays within its capacity, and makes the next file. An input is a
// byte of choices, the three numbers of the header, the numbers of a later moment, and entries.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/system/memory.h"
#include "comm/single.h"
#include "store/order/order_follower.h"
#include "store/pack/member_source.h"
#include "store/pack/pack.h"
#include "store/pack/packer.h"
#include "store/service/node_tree.h"

namespace {

using namespace millrace;

void require(bool holds) {
  if (!holds) std::abort();
}

// Four files of a page, and room for two of them.
struct Node {
  TemporaryDirectory directory = *TemporaryDirectory::create("/tmp", "mr-");
  std::unique_ptr<store::PackReader> reader;
  store::MemberSources sources;
  std::unique_ptr<store::NodeTree> tree;
  std::unique_ptr<store::OrderFollower> follower;
  store::BlockCodec codec;

  Node() {
    const auto& top = directory.path();
    for (const char* name : {"source", "tree", "making"}) {
      std::filesystem::create_directories(top / name);
    }
    for (const char* name : {"a", "b", "c", "d"}) std::ofstream(top / "source" / name) << "text";
    auto comm = comm::single();
    require(
        store::pack_directory({.source = top / "source", .directory = top / "packs"}, *comm).ok());
    auto opened = store::PackReader::open(top / "packs");
    require(opened.ok());
    reader = std::make_unique<store::PackReader>(*std::move(opened));
    sources.push_back(store::make_pack_members(*reader, nullptr));
    auto made = store::NodeTree::create(reader->catalogue(), sources,
                                        {.tree = top / "tree",
                                         .making = top / "making",
                                         .capacity_bytes = 2 * page_bytes(),
                                         .on_made = {},
                                         .on_problem = {}});
    require(made.ok());
    tree = *std::move(made);
    follower = std::make_unique<store::OrderFollower>(*tree, top, /*thread_count=*/1);
  }
};

struct Input {
  uint8_t choices;
  uint64_t numbers[3];
  uint64_t later[2];
  uint32_t entries[64];
};

Input read_input(const uint8_t* data, size_t size) {
  Input input{};
  const auto take = [&](void* out, size_t bytes) {
    const size_t taken = std::min(bytes, size);
    if (taken > 0) std::memcpy(out, data, taken);
    data += taken;
    size -= taken;
  };
  take(&input.choices, sizeof(input.choices));
  take(input.numbers, sizeof(input.numbers));
  take(input.later, sizeof(input.later));
  take(input.entries, sizeof(input.entries));
  return input;
}

void write(const File& file, uint64_t at, const void* data, size_t size) {
  require(file.write_at(at, {static_cast<const std::byte*>(data), size}).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Node node;
  const Input input = read_input(data, size);
  wire::StoreOrder order{};
  order.header.magic = wire::kStoreOrderMagic;
  order.header.version = input.choices & 1 ? 2 : wire::kStoreOrderVersion;
  order.header.slot_count = wire::kStoreOrderSlots;
  std::memcpy(&order.header.end, input.numbers, sizeof(input.numbers));
  for (size_t i = 0; i < wire::kStoreOrderSlots; ++i) order.slots[i] = input.entries[i % 64];

  const auto path = store::order_path(node.directory.path(), 7);
  const auto file = File::open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  require(file.ok());
  write(*file, 0, &order, sizeof(order));
  const bool is_followed = node.follower->follow(&node, 7) == 0;
  require(is_followed == ((input.choices & 1) == 0) && !std::filesystem::exists(path));
  node.follower->look();
  write(*file, offsetof(wire::StoreOrderHeader, end), input.later, sizeof(input.later));
  node.follower->look();
  if (input.choices & 2) require(::ftruncate(file->fd(), static_cast<off_t>(size)) == 0);
  node.follower->look();
  require(node.tree->used_bytes() <= 2 * page_bytes());
  if ((input.choices & 4) == 0) node.follower->forget(&node);

  const auto entry = node.reader->catalogue().find("b");
  require(entry.has_value());
  const auto os_error = std::make_shared<std::atomic<int>>(0);  // another thread may make it, later
  node.tree->make(*entry, node.codec, [os_error](int error) { *os_error = error; });
  require(*os_error == 0 || *os_error == ENOSPC);
  return 0;
}
