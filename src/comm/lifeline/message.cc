#include "comm/lifeline/message.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/text/text.h"

namespace millrace::comm {
namespace {

using wire::LifelineKind;
using wire::LifelineMessage;

// REQUIRES: `field` is all zeros.
template <size_t kSize>
void copy_host(const std::string& host, char (&field)[kSize]) {
  std::memcpy(field, host.data(), std::min(host.size(), kSize - 1));
}

Status check_version(uint32_t version) {
  if (version == wire::kLifelineVersion) return {};
  return fail(Errc::kUnsupported,
              "another rank uses version {} of the lifeline, this one version {}; run the same "
              "build on all hosts",
              version, wire::kLifelineVersion);
}

Result<std::array<uint8_t, 16>> random_bytes() {
  std::array<uint8_t, 16> bytes;
  if (getentropy(bytes.data(), bytes.size()) != 0) return fail_os(errno, "cannot get random bytes");
  return bytes;
}

}  // namespace

Result<Nonce> make_nonce() { return random_bytes(); }
Result<JobKey> make_key() { return random_bytes(); }

std::string RankName::text() const {
  return fmt::format("rank {} (process {} on {})", index_of(rank), pid, printable(host));
}

RankName own_name(Rank rank) {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) std::strcpy(host, "unknown");
  return {.rank = rank, .pid = static_cast<uint32_t>(getpid()), .host = host};
}

// ---- messages ----

LifelineMessage make_message(LifelineKind kind, const RankName& name, const Nonce& nonce) {
  LifelineMessage message = {.magic = wire::kLifelineMagic,
                             .version = wire::kLifelineVersion,
                             .kind = static_cast<uint32_t>(kind),
                             .rank = index_of(name.rank),
                             .pid = name.pid};
  std::memcpy(message.nonce, nonce.data(), nonce.size());
  copy_host(name.host, message.host);
  return message;
}

Result<LifelineMessage> read_message(ByteView bytes, uint32_t world_size) {
  LifelineMessage message;
  assert(bytes.size() == sizeof(message));
  std::memcpy(&message, bytes.data(), sizeof(message));
  if (message.magic != wire::kLifelineMagic) {
    return fail(Errc::kCorrupt, "this is not a lifeline message");
  }
  RETURN_IF_ERROR(check_version(message.version));
  const bool known_kind = message.kind >= static_cast<uint32_t>(LifelineKind::kChallenge) &&
                          message.kind <= static_cast<uint32_t>(LifelineKind::kSilent);
  if (!known_kind || message.rank >= world_size || message.host[sizeof(message.host) - 1] != 0) {
    return fail(Errc::kCorrupt, "a lifeline message of kind {} and rank {} is invalid",
                message.kind, message.rank);
  }
  return message;
}

RankName name_in(const LifelineMessage& message) {
  return {.rank = static_cast<Rank>(message.rank), .pid = message.pid, .host = message.host};
}

// ---- a connection ----

void LifelineChannel::Nonces::take_from(const LifelineMessage& message) {
  const auto kind = static_cast<LifelineKind>(message.kind);
  if (kind == LifelineKind::kChallenge) std::memcpy(hub.data(), message.nonce, hub.size());
  if (kind == LifelineKind::kJoin) std::memcpy(rank.data(), message.nonce, rank.size());
}

SipHashTag LifelineChannel::tag_of(LifelineMessage message, const Nonces& nonces, bool from_hub,
                                   uint64_t index) const {
  wire::LifelineSigned content = {.from_hub = from_hub ? 1u : 0u, .index = index};
  std::memcpy(content.hub_nonce, nonces.hub.data(), nonces.hub.size());
  std::memcpy(content.rank_nonce, nonces.rank.data(), nonces.rank.size());
  std::memset(message.tag, 0, sizeof(message.tag));
  content.message = message;
  return siphash(key_, std::as_bytes(std::span(&content, 1)));
}

LifelineMessage LifelineChannel::sign(LifelineMessage message) {
  nonces_.take_from(message);
  const SipHashTag tag = tag_of(message, nonces_, is_hub_, sent_count_++);
  std::memcpy(message.tag, tag.data(), tag.size());
  return message;
}

Result<LifelineMessage> LifelineChannel::check(ByteView bytes, uint32_t world_size) {
  ASSIGN_OR_RETURN(const LifelineMessage message, read_message(bytes, world_size));
  Nonces nonces = nonces_;
  nonces.take_from(message);
  SipHashTag tag;
  std::memcpy(tag.data(), message.tag, tag.size());
  if (!is_same_tag(tag, tag_of(message, nonces, !is_hub_, received_count_))) {
    return fail(Errc::kPermission, "a lifeline message was not made with the key of this job");
  }
  nonces_ = nonces;
  ++received_count_;
  return message;
}

// ---- the invitation ----

std::string Invitation::text() const {
  std::string lines;
  for (const std::string& address : addresses) lines += address + '\n';
  wire::LifelineInvitation head = {.magic = wire::kInvitationMagic,
                                   .version = wire::kLifelineVersion,
                                   .pid = hub.pid,
                                   .port = port,
                                   .address_bytes = static_cast<uint32_t>(lines.size())};
  std::memcpy(head.key, key.data(), key.size());
  copy_host(hub.host, head.host);
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + lines;
}

Result<Invitation> read_invitation(std::string_view text) {
  ByteReader reader(bytes_of(text));
  ASSIGN_OR_RETURN(const auto head, reader.read<wire::LifelineInvitation>());
  if (head.magic != wire::kInvitationMagic)
    return fail(Errc::kCorrupt, "this is not an invitation");
  RETURN_IF_ERROR(check_version(head.version));
  const bool is_whole = head.address_bytes == reader.remaining() && head.address_bytes > 0;
  if (!is_whole || head.port == 0 || head.port > 0xffff || head.host[sizeof(head.host) - 1] != 0) {
    return fail(Errc::kCorrupt, "an invitation with port {} and {} bytes of addresses is invalid",
                head.port, head.address_bytes);
  }
  Invitation invitation = {.hub = {.rank = kFirstRank, .pid = head.pid, .host = head.host},
                           .port = static_cast<uint16_t>(head.port)};
  std::memcpy(invitation.key.data(), head.key, sizeof(head.key));
  ASSIGN_OR_RETURN(std::string_view lines, reader.take_text(reader.remaining()));
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    if (end == std::string_view::npos)
      return fail(Errc::kCorrupt, "an address in the invitation is truncated");
    invitation.addresses.emplace_back(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  return invitation;
}

}  // namespace millrace::comm
