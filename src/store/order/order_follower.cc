#include "store/order/order_follower.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/concurrency/thread.h"
#include "base/io/file.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::kStoreOrderSlots;
using wire::StoreOrder;
using wire::StoreOrderHeader;

// Loaders write without a system call, so their progress must be looked at.
constexpr std::chrono::milliseconds kLookEvery{5};
constexpr std::chrono::milliseconds kPauseAfterFailure{100};  // a full disk, or a lost source

// Known reads of all loaders: several epochs of a small dataset, or about 25 MB.
uint64_t reads_max(uint64_t entry_count) {
  return std::clamp<uint64_t>(4 * entry_count, 1024, uint64_t{1} << 20);
}

template <typename Value>
MutableByteView bytes_of_value(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

bool is_known(const StoreOrderHeader& header) {
  return header.magic == wire::kStoreOrderMagic && header.version == wire::kStoreOrderVersion &&
         header.slot_count == kStoreOrderSlots;
}

// Reads [first, first + count) of the ring. REQUIRES: count <= kStoreOrderSlots
Result<std::vector<uint32_t>> read_slots(const File& file, uint64_t first, uint64_t count) {
  std::vector<uint32_t> entries(static_cast<size_t>(count));
  const uint64_t at = first % kStoreOrderSlots;
  const uint64_t before_end = std::min<uint64_t>(count, kStoreOrderSlots - at);
  const auto bytes = std::as_writable_bytes(std::span(entries));
  const auto split = static_cast<size_t>(before_end * sizeof(uint32_t));
  RETURN_IF_ERROR(file.read_exactly_at(offsetof(StoreOrder, slots) + at * sizeof(uint32_t),
                                       bytes.first(split)));
  RETURN_IF_ERROR(file.read_exactly_at(offsetof(StoreOrder, slots), bytes.subspan(split)));
  return entries;
}

}  // namespace

struct OrderFollower::Followed {
  const void* owner = nullptr;
  uint64_t number = 0;  // in the tree
  File file;
  uint64_t taken = 0;  // our own numbers: those in the file may be wrong
  uint64_t position = 0;
};

fs::path order_path(const fs::path& node, uint64_t number) {
  return node / fmt::format("{}{:016x}", wire::kStoreOrderFile, number);
}

OrderFollower::OrderFollower(NodeTree& tree, fs::path node, size_t thread_count)
    : tree_(tree), node_(std::move(node)), thread_count_(thread_count) {}

OrderFollower::~OrderFollower() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int OrderFollower::follow(const void* owner, uint64_t number) {
  forget(owner);
  const fs::path path = order_path(node_, number);
  auto file = File::open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  ::unlink(path.c_str());
  StoreOrderHeader header{};
  if (!file.ok() || !file->read_exactly_at(0, bytes_of_value(header)).ok() || !is_known(header)) {
    return EINVAL;
  }
  const MutexLock lock(mutex_);
  if (threads_.empty()) {  // not before the first order: most stores have none
    auto started = start_threads("store ahead", thread_count_, [this] { work(); });
    if (!started.ok()) return EAGAIN;
    threads_ = *std::move(started);
  }
  auto followed = std::make_unique<Followed>();
  followed->owner = owner;
  followed->file = *std::move(file);
  followed->number = tree_.add_order();
  orders_.push_back(std::move(followed));
  has_orders_ = true;
  changed_.notify_all();
  return 0;
}

void OrderFollower::forget(const void* owner) {
  if (!has_orders_) return;
  std::unique_ptr<Followed> found;
  {
    const MutexLock lock(mutex_);
    const auto order = std::ranges::find(orders_, owner, &Followed::owner);
    if (order == orders_.end()) return;
    found = std::move(*order);
    orders_.erase(order);
    has_orders_ = !orders_.empty();
  }
  tree_.remove_order(found->number);
}

void OrderFollower::look() {
  if (!has_orders_) return;
  const MutexLock lock(mutex_);
  copy_all();
}

void OrderFollower::work() {
  ask_for_short_slices();
  BlockCodec codec;
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() REQUIRES(mutex_) {
      return is_stopping_ || (!orders_.empty() && !is_looking_);
    });
    if (is_stopping_) return;
    is_looking_ = true;
    copy_all();
    lock.unlock();
    const auto entry = tree_.take_next();
    lock.lock();
    if (!entry) pause(lock, kLookEvery);
    is_looking_ = false;
    if (!entry) continue;
    lock.unlock();
    changed_.notify_one();  // another thread looks for the next one
    const int os_error = tree_.make_taken(*entry, codec);
    lock.lock();
    if (os_error != 0) pause(lock, kPauseAfterFailure);
  }
}

void OrderFollower::pause(MutexLock& lock, std::chrono::milliseconds duration) {
  changed_.wait_for(lock, duration, [this]() REQUIRES(mutex_) { return is_stopping_; });
}

// Takes the lock of the tree, too; the tree never takes ours.
void OrderFollower::copy_all() {
  for (const auto& order : orders_) copy(*order);
}

void OrderFollower::copy(Followed& order) {
  StoreOrderHeader header{};
  if (!order.file.read_exactly_at(0, bytes_of_value(header)).ok()) return;
  std::atomic_thread_fence(std::memory_order_acquire);  // the slots were written before `end`
  // An equal share for each loader: the first one must not take all.
  const uint64_t limit = reads_max(tree_.entry_count()) / orders_.size();
  const uint64_t known = order.taken - order.position;
  const uint64_t count = std::min<uint64_t>(
      {header.end - order.taken, kStoreOrderSlots, known < limit ? limit - known : 0});
  if (count > 0) {
    const auto entries = read_slots(order.file, order.taken, count);
    if (!entries.ok()) return;
    tree_.append_order(order.number, *entries);
    order.taken += count;
    // If this fails, the loader does not go on, and its reads are not known in advance.
    static_cast<void>(
        order.file.write_at(offsetof(StoreOrderHeader, taken), bytes_of_value(order.taken)));
  }
  const uint64_t position =
      std::min<uint64_t>({header.position, order.taken, order.position + kStoreOrderSlots});
  if (position <= order.position) return;
  tree_.advance_order(order.number, position);
  order.position = position;
}

}  // namespace millrace::store
