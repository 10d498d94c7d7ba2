#include "store/peers/peer_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "comm/lifeline/message.h"

namespace millrace::store {
namespace {

using wire::PeerGreeting;
using wire::PeerHeader;
using wire::PeerKind;

constexpr int kSocketBytes = 4 << 20;  // a whole answer: its sender seldom waits

template <typename T>
ByteView bytes_in(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

void put_tag(const SipHashTag& tag, uint8_t (&out)[16]) { std::memcpy(out, tag.data(), 16); }

bool has_tag(const uint8_t (&found)[16], const SipHashTag& wanted) {
  SipHashTag tag;
  std::memcpy(tag.data(), found, tag.size());
  return is_same_tag(tag, wanted);
}

Result<PeerGreeting> new_greeting(PeerKind kind, Rank own) {
  PeerGreeting greeting{.magic = wire::kPeerMagic,
                        .version = wire::kPeerVersion,
                        .kind = kind,
                        .rank = comm::index_of(own),
                        .reserved = 0,
                        .nonce = {},
                        .tag = {}};
  ASSIGN_OR_RETURN(const comm::Nonce nonce, comm::make_nonce());
  std::memcpy(greeting.nonce, nonce.data(), nonce.size());
  return greeting;
}

Status check_greeting(const PeerGreeting& greeting, PeerKind kind, uint32_t size) {
  if (greeting.magic != wire::kPeerMagic || greeting.kind != kind || greeting.rank >= size) {
    return fail(Errc::kCorrupt, "what answers there is not a store's service of this job");
  }
  if (greeting.version == wire::kPeerVersion) return {};
  return fail(Errc::kUnsupported,
              "it speaks version {}, this build {}; run the same build on all "
              "nodes",
              greeting.version, wire::kPeerVersion);
}

Error wrong_key() {
  return fail(Errc::kPermission, "a message was not made with the key of this job");
}

Error socket_error(int os_error, const char* doing) {
  if (os_error == EAGAIN || os_error == ETIMEDOUT) {
    return fail(Errc::kTimeout, "{}: it is silent", doing);
  }
  return fail_os(os_error, doing);
}

}  // namespace

// The socket was made non-blocking, for connecting. From now on calls wait, up to the deadline.
Status PeerChannel::use_deadline() const {
  const timeval time{.tv_sec = options_.deadline.count() / 1000,
                     .tv_usec = options_.deadline.count() % 1000 * 1000};
  const int flags = ::fcntl(fd(), F_GETFL);
  if (::fcntl(fd(), F_SETFL, flags & ~O_NONBLOCK) != 0 ||
      ::setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) != 0 ||
      ::setsockopt(fd(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) != 0) {
    return fail_os(errno, "cannot set a deadline");
  }
  // The kernel may grant less.
  static_cast<void>(::setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof(int)));
  return {};
}

void PeerChannel::derive_key(const PeerGreeting& challenge, const PeerGreeting& hello) {
  std::byte nonces[sizeof(challenge.nonce) + sizeof(hello.nonce)];
  std::memcpy(nonces, challenge.nonce, sizeof(challenge.nonce));
  std::memcpy(nonces + sizeof(challenge.nonce), hello.nonce, sizeof(hello.nonce));
  key_ = siphash(options_.job_key, ByteView(nonces));
}

SipHashTag PeerChannel::tag_of(PeerGreeting greeting) const {
  std::memset(greeting.tag, 0, sizeof(greeting.tag));
  return siphash(key_, bytes_in(greeting));
}

SipHashTag PeerChannel::tag_of(const PeerHeader& header, ByteView signed_bytes, bool from_asker,
                               uint64_t index) const {
  wire::PeerSigned content{
      .from_asker = from_asker ? 1u : 0u, .index = index, .content = {}, .header = header};
  put_tag(siphash(key_, signed_bytes), content.content);
  std::memset(content.header.tag, 0, sizeof(content.header.tag));
  return siphash(key_, bytes_in(content));
}

Status PeerChannel::send_greeting(PeerGreeting greeting) {
  const ssize_t sent = ::send(fd(), &greeting, sizeof(greeting), MSG_NOSIGNAL);
  if (sent == sizeof(greeting)) return {};
  return fail_os(sent < 0 ? errno : EIO, "sending a greeting");
}

Result<std::unique_ptr<PeerChannel>> PeerChannel::ask_through(comm::OwnFile socket, Rank whom,
                                                              const Options& options) {
  std::unique_ptr<PeerChannel> made(new PeerChannel(std::move(socket), options, true));
  made->other_ = whom;
  RETURN_IF_ERROR(made->use_deadline());
  PeerGreeting challenge{};
  RETURN_IF_ERROR(made->receive_exactly(std::as_writable_bytes(std::span(&challenge, 1))));
  RETURN_IF_ERROR(check_greeting(challenge, PeerKind::kChallenge, options.size));
  ASSIGN_OR_RETURN(PeerGreeting hello, new_greeting(PeerKind::kHello, options.own));
  made->derive_key(challenge, hello);
  put_tag(made->tag_of(hello), hello.tag);
  RETURN_IF_ERROR(made->send_greeting(hello));
  PeerGreeting welcome{};
  RETURN_IF_ERROR(made->receive_exactly(std::as_writable_bytes(std::span(&welcome, 1))));
  RETURN_IF_ERROR(check_greeting(welcome, PeerKind::kWelcome, options.size));
  if (!has_tag(welcome.tag, made->tag_of(welcome))) return wrong_key();
  if (welcome.rank == comm::index_of(whom)) return made;
  // An address that several hosts have, such as that of a bridge for containers.
  return fail(Errc::kNotFound, "rank {} answers there", welcome.rank);
}

Result<std::unique_ptr<PeerChannel>> PeerChannel::answer_through(comm::OwnFile socket,
                                                                 const Options& options) {
  std::unique_ptr<PeerChannel> made(new PeerChannel(std::move(socket), options, false));
  ASSIGN_OR_RETURN(made->challenge_, new_greeting(PeerKind::kChallenge, options.own));
  RETURN_IF_ERROR(made->send_greeting(made->challenge_));
  return made;
}

Result<bool> PeerChannel::greet() {
  auto* const hello = reinterpret_cast<std::byte*>(&hello_);
  const ssize_t size =
      ::recv(fd(), hello + hello_bytes_, sizeof(hello_) - hello_bytes_, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (size <= 0) return fail_os(size < 0 ? errno : ECONNRESET, "receiving a greeting");
  hello_bytes_ += static_cast<size_t>(size);
  if (hello_bytes_ < sizeof(hello_)) return false;
  RETURN_IF_ERROR(check_greeting(hello_, PeerKind::kHello, options_.size));
  derive_key(challenge_, hello_);
  if (!has_tag(hello_.tag, tag_of(hello_))) return wrong_key();
  other_ = static_cast<Rank>(hello_.rank);
  RETURN_IF_ERROR(use_deadline());
  ASSIGN_OR_RETURN(PeerGreeting welcome, new_greeting(PeerKind::kWelcome, options_.own));
  put_tag(tag_of(welcome), welcome.tag);
  RETURN_IF_ERROR(send_greeting(welcome));
  return true;
}

Status PeerChannel::send(PeerKind kind, int error, const Content& content) {
  const size_t size_bytes = content.signed_bytes.size() + content.other_bytes.size();
  if (size_bytes > wire::kPeerMessageBytes) {
    return fail(Errc::kInvalidArgument, "a message of {} bytes is longer than {}", size_bytes,
                wire::kPeerMessageBytes);
  }
  PeerHeader header{.magic = wire::kPeerMagic,
                    .kind = kind,
                    .reserved = 0,
                    .error = error,
                    .signed_bytes = static_cast<uint32_t>(content.signed_bytes.size()),
                    .size_bytes = static_cast<uint32_t>(size_bytes),
                    .reserved_too = 0,
                    .tag = {}};
  put_tag(tag_of(header, content.signed_bytes, is_asker_, sent_count_++), header.tag);
  const auto part = [](ByteView bytes) {
    return iovec{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  };
  iovec parts[] = {part(bytes_in(header)), part(content.signed_bytes), part(content.other_bytes)};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  while (message.msg_iovlen != 0) {
    ssize_t sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return socket_error(errno, "sending to a peer");
    while (message.msg_iovlen != 0 && static_cast<size_t>(sent) >= message.msg_iov->iov_len) {
      sent -= static_cast<ssize_t>(message.msg_iov->iov_len);
      ++message.msg_iov;
      --message.msg_iovlen;
    }
    if (message.msg_iovlen == 0) break;
    message.msg_iov->iov_base = static_cast<std::byte*>(message.msg_iov->iov_base) + sent;
    message.msg_iov->iov_len -= static_cast<size_t>(sent);
  }
  return {};
}

Status PeerChannel::receive_exactly(MutableByteView out) {
  while (!out.empty()) {
    const ssize_t size = ::recv(fd(), out.data(), out.size(), MSG_WAITALL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return socket_error(errno, "waiting for a peer");
    if (size == 0) return fail(Errc::kIo, "it has closed the connection");
    out = out.subspan(static_cast<size_t>(size));
  }
  return {};
}

Status PeerChannel::receive(PeerMessage& message) {
  PeerHeader& header = message.header;
  RETURN_IF_ERROR(receive_exactly(std::as_writable_bytes(std::span(&header, 1))));
  if (header.magic != wire::kPeerMagic || header.size_bytes > wire::kPeerMessageBytes ||
      header.signed_bytes > header.size_bytes) {
    return fail(Errc::kCorrupt, "a message of a peer is malformed");
  }
  if (message.memory.size() < header.size_bytes) message.memory.resize(header.size_bytes);
  RETURN_IF_ERROR(receive_exactly(MutableByteView(message.memory).first(header.size_bytes)));
  const ByteView signed_bytes = message.bytes().first(header.signed_bytes);
  if (has_tag(header.tag, tag_of(header, signed_bytes, !is_asker_, received_count_++))) return {};
  return wrong_key();
}

}  // namespace millrace::store
