#include "comm/lifeline_message.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/text.h"

namespace millrace::comm {
namespace {

using wire::LifelineMessage;

uint32_t checksum(LifelineMessage message) {
  message.crc32c = 0;
  return crc32c(std::as_bytes(std::span(&message, 1)));
}

}  // namespace

std::string RankName::text() const {
  return fmt::format("rank {} (process {} on {})", index_of(rank), pid, printable(host));
}

RankName own_name(Rank rank) {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) std::strcpy(host, "unknown");
  return {.rank = rank, .pid = static_cast<uint32_t>(getpid()), .host = host};
}

LifelineMessage make_message(wire::LifelineKind kind, const JobKey& key, const RankName& name) {
  LifelineMessage message = {.magic = wire::kLifelineMagic,
                             .version = wire::kLifelineVersion,
                             .kind = static_cast<uint32_t>(kind),
                             .key = {key[0], key[1]},
                             .rank = index_of(name.rank),
                             .pid = name.pid};
  const size_t length = std::min(name.host.size(), sizeof(message.host) - 1);
  std::memcpy(message.host, name.host.data(), length);
  message.crc32c = checksum(message);
  return message;
}

Result<LifelineMessage> read_message(ByteView bytes, const JobKey& key, uint32_t world_size) {
  LifelineMessage message;
  assert(bytes.size() == sizeof(message));
  std::memcpy(&message, bytes.data(), sizeof(message));
  if (message.magic != wire::kLifelineMagic) {
    return fail(Errc::kCorrupt, "this is not a lifeline message");
  }
  if (message.version != wire::kLifelineVersion) {
    return fail(Errc::kUnsupported,
                "another rank speaks version {} of the lifeline, this one version {}; run the same "
                "build on all hosts",
                message.version, wire::kLifelineVersion);
  }
  if (message.crc32c != checksum(message)) {
    return fail(Errc::kCorrupt, "a lifeline message has a wrong checksum");
  }
  if (message.key[0] != key[0] || message.key[1] != key[1]) {
    return fail(Errc::kPermission, "a lifeline message is of another job");
  }
  const bool known_kind = message.kind >= static_cast<uint32_t>(wire::LifelineKind::kHello) &&
                          message.kind <= static_cast<uint32_t>(wire::LifelineKind::kBye);
  if (!known_kind || message.rank >= world_size || message.host[sizeof(message.host) - 1] != 0) {
    return fail(Errc::kCorrupt, "a lifeline message of kind {} and rank {} makes no sense",
                message.kind, message.rank);
  }
  return message;
}

RankName name_in(const LifelineMessage& message) {
  return {.rank = static_cast<Rank>(message.rank), .pid = message.pid, .host = message.host};
}

std::string Invitation::text() const {
  const LifelineMessage hello = make_message(wire::LifelineKind::kHello, key, hub);
  std::string out(reinterpret_cast<const char*>(&hello), sizeof(hello));
  out.append(reinterpret_cast<const char*>(&port), sizeof(port));
  for (const std::string& address : addresses) out += address + '\n';
  return out;
}

Result<Invitation> read_invitation(std::string_view text, uint32_t world_size) {
  ByteReader reader(bytes_of(text));
  Invitation invitation;
  ASSIGN_OR_RETURN(const ByteView hello_bytes, reader.take(sizeof(LifelineMessage)));
  std::memcpy(&invitation.key, hello_bytes.data() + offsetof(LifelineMessage, key),
              sizeof(invitation.key));
  ASSIGN_OR_RETURN(const LifelineMessage hello,
                   read_message(hello_bytes, invitation.key, world_size));
  invitation.hub = name_in(hello);
  ASSIGN_OR_RETURN(invitation.port, reader.read<uint16_t>());
  ASSIGN_OR_RETURN(std::string_view lines, reader.take_text(reader.remaining()));
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    if (end == std::string_view::npos) return fail(Errc::kCorrupt, "an invitation is cut short");
    invitation.addresses.emplace_back(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  if (invitation.addresses.empty()) return fail(Errc::kCorrupt, "an invitation has no address");
  return invitation;
}

}  // namespace millrace::comm
