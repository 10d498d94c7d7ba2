#include "comm/doorbell.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <ctime>
#include <utility>

#include "base/io/file.h"

namespace millrace::comm {
namespace {

constexpr const char* kName = "millrace-doorbell";

wire::DoorbellPage* map_page(int fd) {
  const int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* page = mmap(nullptr, wire::kDoorbellPageBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  return page == MAP_FAILED ? nullptr : static_cast<wire::DoorbellPage*>(page);
}

OwnFile make_memory() {
  const NoFork no_fork;
  return OwnFile(memfd_create(kName, MFD_CLOEXEC), no_fork);
}

// Checks the name before opening: opening an unrelated descriptor may block or have side effects.
std::optional<File> open_page(uint64_t pid, uint64_t fd) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  char target[64];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  const std::string expected = fmt::format("/memfd:{}", kName);
  if (length < 0 || !std::string_view(target, static_cast<size_t>(length)).starts_with(expected)) {
    return std::nullopt;
  }
  Result<File> file = File::open(path, O_RDWR);
  if (!file.ok()) return std::nullopt;
  const Result<uint64_t> size_bytes = file->size_bytes();
  if (!size_bytes.ok() || *size_bytes != wire::kDoorbellPageBytes) return std::nullopt;
  return *std::move(file);
}

struct Address {
  uint64_t pid = 0;
  uint64_t fd = 0;
  uint64_t key[2] = {};
};

std::optional<Address> read_address(std::string_view text) {
  Address address;
  for (uint64_t* number : {&address.pid, &address.fd, &address.key[0], &address.key[1]}) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (error != std::errc() || (end != text.data() + text.size() && *end != ' ')) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  return address;
}

}  // namespace

Result<Doorbell> Doorbell::make() {
  // If memfd_create is forbidden, the page works within this process only; no other can find it.
  OwnFile memory = make_memory();
  // Restrict it to this user: a new memfd is open to everybody.
  if (memory.is_open() &&
      (fchmod(memory.fd(), 0600) != 0 || ftruncate(memory.fd(), wire::kDoorbellPageBytes) != 0)) {
    return fail_os(errno, "cannot create shared memory");
  }
  wire::DoorbellPage* page = map_page(memory.fd());
  if (page == nullptr) return fail_os(errno, "cannot map shared memory");
  Doorbell bell(std::move(memory), page);
  if (getentropy(page->key, sizeof(page->key)) != 0) {
    return fail_os(errno, "cannot get random bytes");
  }
  page->magic = wire::kDoorbellMagic;
  return bell;
}

std::optional<Doorbell> Doorbell::find(std::string_view text) {
  const std::optional<Address> address = read_address(text);
  if (!address) return std::nullopt;
  std::optional<File> file = open_page(address->pid, address->fd);
  if (!file) return std::nullopt;
  wire::DoorbellPage* page = map_page(file->fd());
  if (page == nullptr) return std::nullopt;
  Doorbell bell(OwnFile(), page);
  if (page->magic != wire::kDoorbellMagic || page->key[0] != address->key[0] ||
      page->key[1] != address->key[1]) {
    return std::nullopt;
  }
  return bell;
}

Doorbell::Doorbell(Doorbell&& other) noexcept
    : memory_(std::move(other.memory_)), page_(std::exchange(other.page_, nullptr)) {}

Doorbell& Doorbell::operator=(Doorbell&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(page_, other.page_);
  return *this;
}

Doorbell::~Doorbell() {
  if (page_ != nullptr) munmap(page_, wire::kDoorbellPageBytes);
}

std::string Doorbell::address() const {
  return fmt::format("{} {} {} {}", getpid(), memory_.fd(), page_->key[0], page_->key[1]);
}

void Doorbell::ring() const {
  // Sequentially consistent with wait(): either ring() sees the sleeper, or the sleeper the ring.
  std::atomic_ref(page_->ring_count).fetch_add(1, std::memory_order_seq_cst);
  if (std::atomic_ref(page_->sleeps).load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &page_->ring_count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint32_t Doorbell::count() const {
  return std::atomic_ref(page_->ring_count).load(std::memory_order_seq_cst);
}

void Doorbell::wait(uint32_t seen, std::chrono::nanoseconds patience) const {
  std::atomic_ref sleeps(page_->sleeps);
  sleeps.store(1, std::memory_order_seq_cst);
  if (count() == seen) {
    const timespec timeout = {.tv_sec = patience.count() / 1'000'000'000,
                              .tv_nsec = patience.count() % 1'000'000'000};
    syscall(SYS_futex, &page_->ring_count, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  }
  sleeps.store(0, std::memory_order_seq_cst);
}

}  // namespace millrace::comm
