#include "store/order/order_follower.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/numbers/counter_random.h"
#include "comm/single.h"
#include "store/order/order_feed.h"
#include "store/pack/packer.h"
#include "store/service/node_files.h"
#include "store/service/service.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFileCount = 64;
constexpr uint64_t kFileBytes = 4096;
constexpr uint64_t kEpochs = 6;

// A pack of files that take one page each.
class FollowedOrder : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    for (uint32_t i = 0; i < kFileCount; ++i) {
      put_file(top_ / "source" / std::to_string(i), content(i));
    }
    for (const char* name : {"tree", "making", "local"}) fs::create_directories(top_ / name);
    PackOptions options{.source = top_ / "source", .directory = top_ / "packs"};
    options.codec = CodecChoice::kNone;
    pack_files(options);
    auto reader = PackReader::open(top_ / "packs");
    ASSERT_TRUE(reader.ok());
    reader_ = std::make_unique<PackReader>(*std::move(reader));
    sources_.push_back(make_pack_members(*reader_, nullptr));
  }

  static std::string content(uint32_t file) { return noise(file, kFileBytes); }

  std::unique_ptr<NodeTree> tree_for(uint64_t file_count) {
    auto tree = NodeTree::create(reader_->catalogue(), sources_,
                                 {.tree = top_ / "tree",
                                  .making = top_ / "making",
                                  .capacity_bytes = file_count * kFileBytes,
                                  .on_made = [this](uint64_t) { count_made(); },
                                  .on_gone = [this](uint64_t) { --there_count_; },
                                  .on_problem = {}});
    EXPECT_TRUE(tree.ok());
    return tree.ok() ? *std::move(tree) : nullptr;
  }

  void count_made() {
    ++made_count_;
    ++there_count_;
    if (on_made_) on_made_();
  }

  size_t files_in_tree() const {
    const fs::directory_iterator tree(top_ / "tree");
    return static_cast<size_t>(std::distance(begin(tree), end(tree)));
  }

  uint32_t entry_of(uint32_t file) const {
    return reader_->catalogue().find(std::to_string(file)).value_or(0);
  }

  // All files in each epoch, in another order each time.
  std::vector<uint32_t> epochs() const {
    std::vector<uint32_t> order;
    CounterRandom random(1, 2);
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      std::vector<uint32_t> files(kFileCount);
      for (uint32_t i = 0; i < kFileCount; ++i) files[i] = entry_of(i);
      for (size_t i = files.size(); i > 1; --i) std::swap(files[i - 1], files[random.next() % i]);
      order.insert(order.end(), files.begin(), files.end());
    }
    return order;
  }

  int make(NodeTree& tree, uint32_t entry) {
    int error = -1;
    tree.make(entry, codec_, [&](int os_error) { error = os_error; });
    return error;
  }

  std::unique_ptr<PackReader> reader_;
  MemberSources sources_;
  BlockCodec codec_;
  std::atomic<uint64_t> made_count_ = 0;
  std::atomic<uint64_t> there_count_ = 0;
  std::function<void()> on_made_;
};

// The share of reads, after the first epoch, whose file was there.
double hit_share(uint64_t miss_count) {
  const double reads = kFileCount * (kEpochs - 1.0);
  return 1 - (static_cast<double>(miss_count) - kFileCount) / reads;
}

TEST_F(FollowedOrder, WithoutAnOrderWhatCameFirstStays) {
  const auto tree = tree_for(kFileCount / 4);
  uint64_t refused_count = 0;
  for (const uint32_t entry : epochs()) refused_count += make(*tree, entry) == ENOSPC ? 1 : 0;
  EXPECT_EQ(made_count_, kFileCount / 4);
  EXPECT_DOUBLE_EQ(hit_share(made_count_ + refused_count), 0.25);
  EXPECT_EQ(tree->evicted_count(), 0u);
}

TEST_F(FollowedOrder, EvictsWhatIsReadLast) {
  for (const auto& [room, share] : {std::pair(4, 0.22), {2, 0.45}}) {
    made_count_ = 0;
    fs::remove_all(top_ / "tree");
    fs::create_directories(top_ / "tree");
    const auto tree = tree_for(kFileCount / room);
    const auto order = epochs();
    const uint64_t number = tree->add_order();
    tree->append_order(number, order);
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(make(*tree, order[i]), 0) << i;
      ASSERT_LE(tree->used_bytes(), kFileCount / room * kFileBytes);
      tree->advance_order(number, i + 1);
    }
    EXPECT_GE(hit_share(made_count_), share);  // Belady; LRU has 0.03 and 0.15
    RecordProperty(fmt::format("hits_1_{}", room), fmt::format("{:.3f}", hit_share(made_count_)));
  }
}

// Who waits for a file sees its name, not our answer, if it was fetched ahead.
TEST_F(FollowedOrder, AFileIsCountedBeforeItHasItsName) {
  const auto tree = tree_for(4);
  const auto order = epochs();
  const uint64_t number = tree->add_order();
  tree->append_order(number, order);
  on_made_ = [&] { EXPECT_EQ(files_in_tree() + 1, there_count_); };
  for (size_t i = 0; i < 16; ++i) {
    ASSERT_EQ(make(*tree, order[i]), 0);
    EXPECT_EQ(files_in_tree(), there_count_);
    tree->advance_order(number, i + 1);
  }
  EXPECT_EQ(there_count_, 4u);
  EXPECT_EQ(made_count_, 16u);
}

TEST_F(FollowedOrder, AFileThatNeverFitsIsNotWaitedFor) {
  std::ofstream(top_ / "source/long", std::ios::binary) << std::string(3 * kFileBytes, 'x');
  fs::remove_all(top_ / "packs");
  auto comm = comm::single();
  PackOptions options{.source = top_ / "source", .directory = top_ / "packs"};
  ASSERT_TRUE(pack_directory(options, *comm).ok());
  auto reader = PackReader::open(top_ / "packs");
  ASSERT_TRUE(reader.ok());
  sources_.clear();
  *reader_ = *std::move(reader);
  sources_.push_back(make_pack_members(*reader_, nullptr));
  const auto tree = tree_for(2);
  const uint32_t long_file = reader_->catalogue().find("long").value_or(0);
  tree->append_order(tree->add_order(), std::vector<uint32_t>{long_file, entry_of(1)});
  EXPECT_EQ(tree->take_next(), entry_of(1));
}

TEST_F(FollowedOrder, FetchesAheadSoThatNoReadWaits) {
  const auto tree = tree_for(kFileCount / 4);
  const auto order = epochs();
  const uint64_t number = tree->add_order();
  tree->append_order(number, order);
  for (size_t i = 0; i < order.size(); ++i) {
    while (const auto taken = tree->take_next()) ASSERT_EQ(tree->make_taken(*taken, codec_), 0);
    const uint64_t before = made_count_;
    ASSERT_EQ(make(*tree, order[i]), 0);
    EXPECT_EQ(made_count_, before) << i;
    tree->advance_order(number, i + 1);
  }
  // A few files are there early, the others are kept as without fetching ahead.
  EXPECT_GE(hit_share(made_count_), 0.15);
}

TEST_F(FollowedOrder, AnOpenFileIsNotEvicted) {
  const auto tree = tree_for(1);
  const uint64_t number = tree->add_order();
  tree->append_order(number, std::vector<uint32_t>{entry_of(5), entry_of(6)});
  ASSERT_EQ(make(*tree, entry_of(1)), 0);  // no use is known
  {
    const auto opened = File::open(top_ / "tree/1", O_RDONLY);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(make(*tree, entry_of(5)), ENOSPC);
    EXPECT_TRUE(fs::exists(top_ / "tree/1"));
  }
  EXPECT_EQ(make(*tree, entry_of(5)), 0);
  EXPECT_FALSE(fs::exists(top_ / "tree/1"));
  EXPECT_EQ(make(*tree, entry_of(6)), ENOSPC);  // 5 is read before
  EXPECT_EQ(make(*tree, entry_of(1)), ENOSPC);
  tree->advance_order(number, 1);
  EXPECT_EQ(make(*tree, entry_of(6)), 0);
  tree->remove_order(number);
  EXPECT_EQ(make(*tree, entry_of(1)), ENOSPC);  // what is there stays
  EXPECT_EQ(tree->used_bytes(), kFileBytes);
}

TEST_F(FollowedOrder, TheServiceFetchesWhatLoadersAnnounce) {
  ServiceOptions options;
  options.packs = top_ / "packs";
  options.root = "/data/set";
  options.local = top_ / "local";
  options.capacity_bytes = 8 * kFileBytes;
  const auto service = Service::start(std::move(options));
  ASSERT_TRUE(service.ok()) << service.error().message();
  const auto order = epochs();
  std::atomic<size_t> at = 0;
  auto feed = OrderFeed::start((*service)->node(), kTestPatience, [&]() -> std::optional<uint32_t> {
    return at < order.size() ? std::optional(order[at++]) : std::nullopt;
  });
  ASSERT_TRUE(feed.ok()) << feed.error().message();
  const fs::path tree = (*service)->node() / "tree";
  const auto is_there = [&](uint32_t entry) {
    return fs::exists(tree / reader_->catalogue().path(entry));
  };
  for (size_t i = 0; i < order.size(); ++i) {
    while (!is_there(order[i])) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto text = read_file(tree / reader_->catalogue().path(order[i]));
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(text->size(), kFileBytes);
    (*feed)->finished(1);
  }
  EXPECT_LE((*service)->used_bytes(), 8 * kFileBytes);
  EXPECT_GT((*service)->evicted_count(), kFileCount);
  feed->reset();
  for (const auto& left : fs::directory_iterator((*service)->node())) {
    EXPECT_FALSE(left.path().filename().string().starts_with("order-"));
  }
}

TEST_F(FollowedOrder, SeveralLoadersAreMergedAndMayEnd) {
  ServiceOptions options;
  options.packs = top_ / "packs";
  options.root = "/data/set";
  options.local = top_ / "local";
  options.capacity_bytes = 16 * kFileBytes;
  const auto service = Service::start(std::move(options));
  ASSERT_TRUE(service.ok()) << service.error().message();
  const auto order = epochs();
  const fs::path tree = (*service)->node() / "tree";
  const auto read = [&](size_t first, size_t limit) {
    std::atomic<size_t> at = first;
    auto feed =
        OrderFeed::start((*service)->node(), kTestPatience, [&]() -> std::optional<uint32_t> {
          const size_t next = at.fetch_add(2);
          return next < order.size() ? std::optional(order[next]) : std::nullopt;
        });
    ASSERT_TRUE(feed.ok()) << feed.error().message();
    for (size_t i = first; i < limit; i += 2) {
      const fs::path path = tree / reader_->catalogue().path(order[i]);
      while (!fs::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (*feed)->finished(1);
    }
  };
  std::thread other([&] { read(1, order.size() / 2); });  // and then it is gone
  read(0, order.size());
  other.join();
  EXPECT_LE((*service)->used_bytes(), 16 * kFileBytes);
}

TEST_F(FollowedOrder, ADamagedOrderIsRefused) {
  ServiceOptions options;
  options.packs = top_ / "packs";
  options.root = "/data/set";
  options.local = top_ / "local";
  const auto service = Service::start(std::move(options));
  ASSERT_TRUE(service.ok()) << service.error().message();
  const auto client = ServiceClient::connect((*service)->node());
  ASSERT_TRUE(client.ok());
  std::ofstream(order_path((*service)->node(), 7)) << "no order";
  for (const uint64_t number : {6, 7}) {
    ASSERT_TRUE(client->ask(number, number, wire::StoreRequestKind::kFollow).ok());
    const auto reply = client->next(kTestPatience);
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->os_error, EINVAL);
  }
}

}  // namespace
}  // namespace millrace::store
