// The service, its second half: where files come from, and what peers ask.
#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/system/memory.h"
#include "store/service/service.h"

namespace millrace::store {

// In the order in which they are asked.
Status Service::open_sources(std::optional<PeersOptions> peers) {
  if (peers) {
    hold_partitions(*peers);
    open_peers(*std::move(peers));
  }
  RETURN_IF_ERROR(check_partitions());
  if (held_ == nullptr) RETURN_IF_ERROR(read_ahead());
  sources_.push_back(make_pack_members(reader_, ahead_.get()));
  if (options_.origin.empty()) return {};
  ASSIGN_OR_RETURN(auto origin, make_origin_members(catalogue(), options_.origin));
  add_source(std::move(origin), &wire::StoreCounters::origin_files, nullptr);
  return {};
}

// On one node: on several, whole partitions are copied anyway. Files are made before they are
// needed only if there is room for all of them; otherwise they might take the place of others. In
// fast mode, programs may need a real file besides the bytes in the arena.
Status Service::read_ahead() {
  const uint64_t memory = memory_available_bytes().value_or(0) / 2;
  ReadAheadOptions ahead{.budget_bytes = std::min(memory, options_.capacity_bytes), .make = {}};
  const uint64_t all_bytes =
      catalogue().content_bytes() + uint64_t{catalogue().entry_count()} * page_bytes();
  if (all_bytes <= options_.capacity_bytes / (options_.is_fast ? 2 : 1)) {
    ahead.make = [this](uint32_t index, BlockCodec& codec) {
      const auto ignore = [](int) {};  // a program that needs the file hears what is wrong
      if (arena_ != nullptr) {
        arena_->place(index, codec, ignore);
      } else {
        tree_->make(index, codec, ignore);
      }
    };
  }
  ASSIGN_OR_RETURN(ahead_, ReadAhead::start(reader_, std::move(ahead)));
  return {};
}

// A partition that is missing is no reason to fail: a replica or the origin may have its files.
// Those that belong to others may be out of our sight.
Status Service::check_partitions() {
  for (uint32_t i = 0; i < catalogue().partition_count(); ++i) {
    if (held_ != nullptr && !held_->holds(i)) continue;
    const Result<MappedFile>& file = reader_.partition_file(i);
    if (file.ok()) continue;
    const bool has_others =
        !options_.origin.empty() || (placement_ && placement_->replica_count() > 1);
    if (!has_others) return file.error();
    report(file.error().message());
  }
  return {};
}

// Half of the capacity at most: files of all partitions become files of the tree.
void Service::hold_partitions(const PeersOptions& peers) {
  const auto size = static_cast<uint32_t>(peers.table.places.size());
  placement_.emplace(catalogue(), size, options_.replica_count);
  HeldPartitionsOptions held{.directory = node() / wire::kStorePacksDirectory,
                             .numbers = {},
                             .budget_bytes = size > 1 ? options_.capacity_bytes / 2 : 0,
                             .log = [this](const std::string& line) { report(line); }};
  for (uint32_t i = 0; i < catalogue().partition_count(); ++i) {
    if (placement_->holds(peers.own, i)) held.numbers.push_back(i);
  }
  held_ = std::make_unique<HeldPartitions>(reader_, std::move(held));
  sources_.push_back(make_held_members(reader_, *held_));
}

void Service::open_peers(PeersOptions peers) {
  peers.log = [this](const std::string& line) { report(line); };
  peers_ = std::make_unique<Peers>(std::move(peers));
  peers_->serve(wire::PeerKind::kReadMember, [this](Rank, ByteView question) {
    return answer_member(reader_, *held_, question);
  });
  peers_->serve(wire::PeerKind::kEnd, [this](Rank, ByteView) {
    if (options_.on_end) options_.on_end();
    return PeerAnswer();
  });
  peers_->serve(wire::PeerKind::kStatus, [this](Rank, ByteView) {
    return PeerAnswer{.bytes = std::string(text_of(folder_.state_bytes())), .view = {}};
  });
  peers_->serve(wire::PeerKind::kFlush,
                [this](Rank, ByteView question) { return answer_flush(question); });
  for (uint32_t i = 0; i < placement_->replica_count(); ++i) {
    add_source(make_peer_members({reader_, *placement_, *peers_, i}),
               &wire::StoreCounters::peer_files, &wire::StoreCounters::peer_bytes);
  }
}

// Its files are counted.
void Service::add_source(MemberSource source, uint64_t wire::StoreCounters::* files,
                         uint64_t wire::StoreCounters::* bytes) {
  source.read = [=, this, read = std::move(source.read)](uint32_t index, BlockCodec& codec,
                                                         const EachBlock& each) -> Status {
    RETURN_IF_ERROR(read(index, codec, each));
    add_to_counter(folder_.counters().*files, 1);
    if (bytes != nullptr) {
      add_to_counter(folder_.counters().*bytes, catalogue().entry(index).size_bytes);
    }
    return {};
  };
  sources_.push_back(std::move(source));
}

// The asker does not wait for the end of a flush, which may take longer than its deadline: it gets
// a ticket, and asks with that.
Result<PeerAnswer> Service::answer_flush(ByteView question) const {
  const std::filesystem::path buffer = buffer_of(node());
  if (drain_ != nullptr && question.size() != sizeof(FlushTicket)) {
    ASSIGN_OR_RETURN(const FlushTicket ticket, begin_flush(buffer));
    return PeerAnswer{.bytes = std::string(text_of(std::as_bytes(std::span(&ticket, 1)))),
                      .view = {}};
  }
  auto progress = wire::FlushProgress::kDurable;
  if (drain_ != nullptr) {
    FlushTicket ticket;
    std::memcpy(&ticket, question.data(), sizeof(ticket));
    progress = look_at_flush(buffer, ticket);
  }
  return PeerAnswer{.bytes = std::string(1, static_cast<char>(progress)), .view = {}};
}

}  // namespace millrace::store
