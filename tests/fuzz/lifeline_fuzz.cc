// A lifeline's messages and invitations: bytes of a stranger on the port are refused or make sense.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "comm/lifeline_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  constexpr uint32_t kWorldSize = 4;
  const ByteView all(reinterpret_cast<const std::byte*>(data), size);
  if (size >= sizeof(wire::LifelineMessage)) {
    comm::JobKey key;
    std::memcpy(&key, data + offsetof(wire::LifelineMessage, key), sizeof(key));
    const auto message =
        comm::read_message(all.first(sizeof(wire::LifelineMessage)), key, kWorldSize);
    if (message.ok() && comm::index_of(comm::name_in(*message).rank) >= kWorldSize) std::abort();
  }
  const auto invitation = comm::read_invitation(text_of(all), kWorldSize);
  if (!invitation.ok()) return 0;
  if (invitation->addresses.empty()) std::abort();
  // What was understood is what was said, but for bytes behind the end of the host's name.
  const auto again = comm::read_invitation(invitation->text(), kWorldSize);
  if (!again.ok() || again->addresses != invitation->addresses) std::abort();
  return 0;
}
