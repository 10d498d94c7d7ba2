#include "store/order/coming_uses.h"

#include <algorithm>

namespace millrace::store {
namespace {

// So many reads behind, a loader does not read equally fast. Those of a job are a few batches
// apart.
constexpr UseTime kLateAfter = 4096;

// Steps in the list of an entry's uses. Only a file of very many samples that several loaders read
// has more; then a use in the middle is left out, which does no harm: there are earlier ones.
constexpr int kStepsMax = 256;

// Entries to look at for a held one without a known use.
constexpr uint32_t kScanMax = 1 << 16;

}  // namespace

UseTime ComingUses::now() const {
  UseTime now = 0;
  for (const auto& [number, order] : orders_) now = std::max(now, order.now());
  return now;
}

uint64_t ComingUses::add_order() {
  const UseTime begin = now();
  first_.resize(entry_count(), kNone);
  last_.resize(entry_count(), kNone);
  orders_[order_count_].begin = begin;
  return order_count_++;
}

void ComingUses::remove_order(uint64_t number) {
  const auto found = orders_.find(number);
  if (found == orders_.end()) return;
  erase_all(found->second);
  orders_.erase(found);
  if (!orders_.empty()) return;
  first_ = {};
  last_ = {};
  uses_ = {};
  free_ = {};
}

void ComingUses::insert_all(Order& order) {
  UseTime time = order.now();
  for (const uint32_t entry : order.entries) insert(entry, time++);
}

void ComingUses::erase_all(Order& order) {
  if (order.is_late) return;
  UseTime time = order.now();
  for (const uint32_t entry : order.entries) erase(entry, time++);
}

void ComingUses::append(uint64_t number, std::span<const uint32_t> entries) {
  Order& order = orders_.at(number);
  for (const uint32_t entry : entries) {
    if (!order.is_late) insert(entry, order.begin + order.end());
    order.entries.push_back(entry);
  }
}

void ComingUses::advance(uint64_t number, uint64_t position) {
  Order& order = orders_.at(number);
  if (order.is_late && position > order.position) {
    order.begin = now() - order.position;
    order.cursor = order.position;
    order.is_late = false;
    insert_all(order);
  }
  while (order.position < position && !order.entries.empty()) {
    const uint32_t entry = order.entries.front();
    order.entries.pop_front();
    erase(entry, order.begin + order.position++);
  }
  order.cursor = std::max(order.cursor, order.position);
  leave_late_orders();
}

void ComingUses::leave_late_orders() {
  const UseTime latest = now();
  for (auto& [number, order] : orders_) {
    if (order.is_late || latest - order.now() <= kLateAfter) continue;
    erase_all(order);
    order.is_late = true;
  }
}

// Two loaders may read an entry at the same time: then it has two equal uses.
void ComingUses::insert(uint32_t entry, UseTime time) {
  if (entry >= entry_count()) return;
  const UseTime before = next_use(entry);
  const uint32_t last = last_[entry];
  uint32_t* link = &first_[entry];
  if (last != kNone && uses_[last].time <= time) link = &uses_[last].next;  // most often
  for (int steps = 0; *link != kNone && uses_[*link].time <= time; link = &uses_[*link].next) {
    if (++steps > kStepsMax) return;
  }
  const uint32_t next = *link;
  uint32_t place_of_use = static_cast<uint32_t>(uses_.size());
  if (free_.empty()) {
    *link = place_of_use;  // before the vector grows: the link may be in it
    uses_.push_back({.time = time, .next = next});
  } else {
    place_of_use = free_.back();
    free_.pop_back();
    *link = place_of_use;
    uses_[place_of_use] = {.time = time, .next = next};
  }
  if (next == kNone) last_[entry] = place_of_use;
  place(entry, before);
}

void ComingUses::erase(uint32_t entry, UseTime time) {
  if (entry >= entry_count()) return;
  const UseTime first_use = next_use(entry);
  uint32_t before = kNone;
  uint32_t at = first_[entry];
  while (at != kNone && uses_[at].time < time) {
    before = at;
    at = uses_[at].next;
  }
  if (at == kNone || uses_[at].time != time) return;
  (before == kNone ? first_[entry] : uses_[before].next) = uses_[at].next;
  if (last_[entry] == at) last_[entry] = before;
  free_.push_back(at);
  place(entry, first_use);
}

// Updates by_use_ after the next use may have changed.
void ComingUses::place(uint32_t entry, UseTime before) {
  const UseTime next = next_use(entry);
  if (!is_held_[entry] || next == before) return;
  if (before != kNeverUsed) by_use_.erase({before, entry});
  if (next != kNeverUsed) by_use_.emplace(next, entry);
}

void ComingUses::hold(uint32_t entry) {
  if (is_held_[entry]) return;
  is_held_[entry] = true;
  ++held_count_;
  if (const UseTime next = next_use(entry); next != kNeverUsed) by_use_.emplace(next, entry);
}

void ComingUses::let_go(uint32_t entry) {
  if (!is_held_[entry]) return;
  is_held_[entry] = false;
  --held_count_;
  by_use_.erase({next_use(entry), entry});
}

std::vector<uint32_t> ComingUses::replaceable(UseTime needed_at, size_t count_max) {
  std::vector<uint32_t> entries;
  if (needed_at == kNeverUsed) return entries;
  const uint64_t unknown_count = held_count_ - by_use_.size();
  for (uint32_t i = 0; i < std::min(kScanMax, entry_count()); ++i) {
    if (entries.size() == std::min<uint64_t>(unknown_count, count_max)) break;
    hand_ = hand_ + 1 < entry_count() ? hand_ + 1 : 0;
    if (is_held_[hand_] && next_use(hand_) == kNeverUsed) entries.push_back(hand_);
  }
  for (auto last = by_use_.rbegin(); last != by_use_.rend(); ++last) {
    if (entries.size() == count_max || last->first <= needed_at) break;
    entries.push_back(last->second);
  }
  return entries;
}

ComingUses::Order* ComingUses::earliest() {
  Order* found = nullptr;
  for (auto& [number, order] : orders_) {
    if (order.is_late || order.cursor == order.end()) continue;
    if (found == nullptr || order.begin + order.cursor < found->begin + found->cursor) {
      found = &order;
    }
  }
  return found;
}

std::optional<ComingUses::Wanted> ComingUses::wanted() {
  while (Order* const order = earliest()) {
    const uint32_t entry = order->entries[order->cursor - order->position];
    if (entry < entry_count()) {
      return Wanted{.entry = entry,
                    .time = order->begin + order->cursor,
                    .ahead = order->cursor - order->position};
    }
    ++order->cursor;
  }
  return std::nullopt;
}

void ComingUses::skip_wanted() {
  if (Order* const order = earliest()) ++order->cursor;
}

void ComingUses::want_again(UseTime time) {
  for (auto& [number, order] : orders_) {
    const uint64_t read = time > order.begin ? time - order.begin : 0;
    order.cursor = std::max(std::min(order.cursor, read), order.position);
  }
}

}  // namespace millrace::store
