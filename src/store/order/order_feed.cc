#include "store/order/order_feed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>

#include "base/concurrency/thread.h"
#include "base/text/text.h"
#include "store/order/order_follower.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::StoreOrder;

constexpr std::chrono::milliseconds kLookEvery{10};

}  // namespace

void OrderFeed::Unmap::operator()(StoreOrder* order) const { ::munmap(order, sizeof(*order)); }

OrderFeed::OrderFeed(ServiceClient client, Shared shared, NextEntry next)
    : pid_(::getpid()),
      client_(std::move(client)),
      shared_(std::move(shared)),
      next_(std::move(next)) {}

Result<OrderFeed::Shared> OrderFeed::create(const fs::path& path) {
  ASSIGN_OR_RETURN(const File file, File::open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
  // Not ftruncate: writing into a mapped hole of a full file system ends the program.
  if (const int error = ::posix_fallocate(file.fd(), 0, sizeof(StoreOrder)); error != 0) {
    return fail_os(error, "cannot make room").within(printable(path.string()));
  }
  void* const mapped =
      ::mmap(nullptr, sizeof(StoreOrder), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (mapped == MAP_FAILED) return fail_os(errno, "cannot map").within(printable(path.string()));
  Shared shared(static_cast<StoreOrder*>(mapped));
  shared->header.magic = wire::kStoreOrderMagic;
  shared->header.version = wire::kStoreOrderVersion;
  shared->header.slot_count = wire::kStoreOrderSlots;
  return shared;
}

Result<OrderFeed::Shared> OrderFeed::announce(const ServiceClient& client, const fs::path& node,
                                              std::chrono::milliseconds patience) {
  uint64_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  const fs::path path = order_path(node, number);
  auto shared = create(path);
  Status asked =
      shared.ok() ? client.ask(/*id=*/1, number, wire::StoreRequestKind::kFollow) : Status();
  const auto reply = shared.ok() && asked.ok() ? client.next(patience) : ServiceClient::Reply();
  ::unlink(path.c_str());  // the service has done so, if it lives
  RETURN_IF_ERROR(asked);
  RETURN_IF_ERROR(reply);
  if (reply->os_error != 0) return fail_os(reply->os_error, "the service does not take the order");
  return shared;
}

Result<std::unique_ptr<OrderFeed>> OrderFeed::start(const fs::path& node,
                                                    std::chrono::milliseconds patience,
                                                    NextEntry next) {
  ASSIGN_OR_RETURN(ServiceClient client, ServiceClient::connect(node));
  ASSIGN_OR_RETURN(Shared shared, announce(client, node, patience));
  std::unique_ptr<OrderFeed> feed(
      new OrderFeed(std::move(client), std::move(shared), std::move(next)));
  ASSIGN_OR_RETURN(feed->thread_, start_thread("store order", [own = feed.get()] { own->run(); }));
  return feed;
}

OrderFeed::~OrderFeed() {
  is_stopping_ = true;
  const bool is_child = pid_ != ::getpid();
  if (!is_child) client_.end();  // children may have copies of the connection
  if (!thread_.joinable()) return;
  if (is_child) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void OrderFeed::run() {
  uint64_t end = 0;
  for (auto entry = next_(); entry; entry = next_()) {
    const std::atomic_ref<uint64_t> taken(shared_->header.taken);
    while (end - taken.load(std::memory_order_acquire) >= wire::kStoreOrderSlots) {
      if (is_stopping_) return;
      std::this_thread::sleep_for(kLookEvery);
    }
    if (is_stopping_) return;
    std::atomic_ref<uint32_t>(shared_->slots[end % wire::kStoreOrderSlots])
        .store(*entry, std::memory_order_relaxed);
    std::atomic_ref<uint64_t>(shared_->header.end).store(++end, std::memory_order_release);
  }
}

void OrderFeed::finished(uint64_t count) {
  std::atomic_ref<uint64_t>(shared_->header.position).fetch_add(count, std::memory_order_release);
}

}  // namespace millrace::store
