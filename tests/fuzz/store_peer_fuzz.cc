// Bytes of a stranger on the port of a store's service never pass for a greeting, and any text is a
// table of services or is refused.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "store/peers/peer_channel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const ByteView all(reinterpret_cast<const std::byte*>(data), size);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  const auto owned = [](int fd) {
    const comm::NoFork no_fork;
    return comm::OwnFile(fd, no_fork);
  };
  {
    auto channel =
        store::PeerChannel::answer_through(owned(ends[1]), {.job_key = {1, 2, 3}, .size = 4});
    const size_t sent_bytes = std::min<size_t>(size, 4096);
    if (channel.ok() && ::send(ends[0], data, sent_bytes, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
      const auto greeted = (*channel)->greet();
      if (greeted.ok() && *greeted) std::abort();
    }
  }
  ::close(ends[0]);
  const auto table = store::read_table(text_of(all));
  if (!table.ok()) return 0;
  const auto again = store::read_table(store::table_text(*table));
  if (!again.ok() || again->places.size() != table->places.size()) std::abort();
  return 0;
}
