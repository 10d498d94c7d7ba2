#include "loader/tiers/peer.h"

#include <cstring>

#include "base/hash/crc32c.h"
#include "wire/tier_message.h"

namespace millrace::loader::tiers {
namespace {

using data::index_of;
using data::SampleId;
using wire::kTierMessageVersion;
using wire::TierAnswer;
using wire::TierQuestion;

template <typename T>
std::optional<T> header_of(std::string_view message) {
  if (message.size() < sizeof(T)) return std::nullopt;
  T header;
  std::memcpy(&header, message.data(), sizeof(T));
  return header;
}

std::string answer_to(const std::string& question, const Peer::Lookup& lookup) {
  TierAnswer answer{.version = kTierMessageVersion};
  std::string message(sizeof(TierAnswer), '\0');
  const auto asked = header_of<TierQuestion>(question);
  if (asked && asked->version == kTierMessageVersion && question.size() == sizeof(TierQuestion)) {
    answer.sample = asked->sample;
    if (lookup(SampleId{asked->sample}, message)) {
      const ByteView bytes = bytes_of(message).subspan(sizeof(TierAnswer));
      answer.is_held = 1;
      answer.size_bytes = bytes.size();
      answer.crc32c = crc32c(bytes);
    } else {
      message.resize(sizeof(TierAnswer));
    }
  }
  std::memcpy(message.data(), &answer, sizeof(answer));
  return message;
}

bool is_the_sample(const std::string& message, SampleId sample) {
  const auto answer = header_of<TierAnswer>(message);
  if (!answer || answer->version != kTierMessageVersion || answer->is_held != 1) return false;
  const ByteView bytes = bytes_of(message).subspan(sizeof(TierAnswer));
  return answer->sample == index_of(sample) && answer->size_bytes == bytes.size() &&
         answer->crc32c == crc32c(bytes);
}

}  // namespace

ByteView PeerSample::bytes() const { return bytes_of(message).subspan(sizeof(TierAnswer)); }

Peer::Peer(comm::Messages& messages, comm::MessageTag tag, Lookup lookup,
           std::chrono::nanoseconds patience)
    : messages_(messages), tag_(tag), patience_(patience), late_(messages.size()) {
  messages.serve(tag, [lookup = std::move(lookup)](comm::Rank, const std::string& question) {
    return answer_to(question, lookup);
  });
}

// Late answers are dropped: the samples were read elsewhere.
bool Peer::is_silent(uint32_t rank) {
  const MutexLock lock(mutex_);
  std::erase_if(late_[rank], [&](comm::Ticket ticket) {
    if (!messages_.is_done(ticket)) return false;
    static_cast<void>(messages_.take(ticket).ok());
    return true;
  });
  return !late_[rank].empty();
}

Result<std::optional<PeerSample>> Peer::ask(uint32_t rank, SampleId sample) {
  if (is_silent(rank)) return std::optional<PeerSample>();
  const TierQuestion question{kTierMessageVersion, 0, index_of(sample)};
  std::string text(sizeof(question), '\0');
  std::memcpy(text.data(), &question, sizeof(question));
  const auto whom = static_cast<comm::Rank>(rank);
  const comm::Ticket ticket = messages_.ask(whom, tag_, std::move(text));
  const Status answered = messages_.wait(ticket, patience_);
  if (!answered.ok() && answered.error().code() == Errc::kTimeout) {
    const MutexLock lock(mutex_);
    late_[rank].push_back(ticket);
    return std::optional<PeerSample>();
  }
  auto message = answered.ok() ? messages_.take(ticket) : answered.error();
  if (!message.ok() && !messages_.has_ended(whom)) return message.error();
  if (!message.ok() || !is_the_sample(*message, sample)) return std::optional<PeerSample>();
  return std::optional<PeerSample>(PeerSample{*std::move(message)});
}

}  // namespace millrace::loader::tiers
