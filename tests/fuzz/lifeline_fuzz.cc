// Messages and invitations of a lifeline: bytes of a stranger on the port are refused or valid.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "comm/lifeline/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  constexpr uint32_t kWorldSize = 4;
  const comm::JobKey key = {3, 4};
  const ByteView all(reinterpret_cast<const std::byte*>(data), size);
  if (size >= sizeof(wire::LifelineMessage)) {
    const ByteView bytes = all.first(sizeof(wire::LifelineMessage));
    const auto message = comm::read_message(bytes, kWorldSize);
    if (message.ok() && comm::index_of(comm::name_in(*message).rank) >= kWorldSize) std::abort();
    // A valid message is accepted only from a sender that has the key.
    comm::LifelineChannel sender(comm::LifelineChannel::End::kRank, key);
    comm::LifelineChannel receiver(comm::LifelineChannel::End::kHub, key);
    comm::LifelineChannel stranger(comm::LifelineChannel::End::kRank, {5});
    if (message.ok()) {
      const auto forged = stranger.sign(*message);
      if (receiver.check(std::as_bytes(std::span(&forged, 1)), kWorldSize).ok()) std::abort();
      const auto ours = sender.sign(*message);
      if (!receiver.check(std::as_bytes(std::span(&ours, 1)), kWorldSize).ok()) std::abort();
    } else if (receiver.check(bytes, kWorldSize).ok()) {
      std::abort();
    }
  }
  const auto invitation = comm::read_invitation(text_of(all));
  if (!invitation.ok()) return 0;
  if (invitation->addresses.empty()) std::abort();
  // The parsed message equals the bytes, except for those after the end of the host's name.
  const auto again = comm::read_invitation(invitation->text());
  if (!again.ok() || again->addresses != invitation->addresses) std::abort();
  return 0;
}
