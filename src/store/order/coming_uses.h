// ComingUses: which files of a node to fetch next, and which to give up, from the orders of coming
// reads that its loaders gave.
//
// The orders of several loaders are merged by assuming that all read equally fast: the i-th read
// after a loader joined has the time of joining + i. A loader that has fallen far behind, such as
// that of the validation, does not count until it reads again; its files would never become free
// otherwise. Takes about 8 bytes for each entry of the catalogue, 20 for each known read, and 50
// for each file that is held and has a known use. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace millrace::store {

using UseTime = uint64_t;  // counts reads
inline constexpr UseTime kNeverUsed = ~UseTime{0};

class ComingUses {
 public:
  explicit ComingUses(uint32_t entry_count) : is_held_(entry_count) {}

  // REQUIRES for all others that take an order: it was added, and not removed.
  uint64_t add_order();
  void remove_order(uint64_t order);

  // More reads of an order. An entry that is out of range is a read of something else.
  void append(uint64_t order, std::span<const uint32_t> entries);

  // The first `position` reads of an order are done.
  void advance(uint64_t order, uint64_t position);

  // kNeverUsed: no use is known.
  UseTime next_use(uint32_t entry) const {
    return first_.empty() || first_[entry] == kNone ? kNeverUsed : uses_[first_[entry]].time;
  }
  uint64_t use_count() const { return uses_.size() - free_.size(); }

  // Whether the file of an entry is there.
  void hold(uint32_t entry);
  void let_go(uint32_t entry);
  bool is_held(uint32_t entry) const { return is_held_[entry]; }
  uint64_t held_count() const { return held_count_; }

  // Held entries that are used later than `needed_at`: some without a known use, then those that
  // are used last. At most `count_max`.
  std::vector<uint32_t> replaceable(UseTime needed_at, size_t count_max);

  // A cursor over all reads in the order of their time, for fetching ahead.
  struct Wanted {
    uint32_t entry = 0;
    UseTime time = 0;
    uint64_t ahead = 0;  // reads of its loader until then
  };
  std::optional<Wanted> wanted();
  void skip_wanted();
  // Moves the cursor back to this time if it is later.
  void want_again(UseTime time);

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Use {
    UseTime time = 0;
    uint32_t next = kNone;  // of the same entry, later
  };
  struct Order {
    UseTime begin = 0;             // the time of its first read
    uint64_t position = 0;         // reads that are done
    uint64_t cursor = 0;           // reads before it need no fetching
    std::deque<uint32_t> entries;  // the reads from position on
    bool is_late = false;          // its reads are not among the uses
    uint64_t end() const { return position + entries.size(); }
    UseTime now() const { return begin + position; }
  };

  UseTime now() const;
  void insert_all(Order& order);
  void erase_all(Order& order);
  void leave_late_orders();
  void insert(uint32_t entry, UseTime time);
  void erase(uint32_t entry, UseTime time);
  void place(uint32_t entry, UseTime before);
  Order* earliest();

  uint32_t entry_count() const { return static_cast<uint32_t>(is_held_.size()); }

  std::vector<uint32_t> first_;  // by entry, into uses_; empty without orders
  std::vector<uint32_t> last_;   // likewise: a file of many samples has many uses in a row
  std::vector<Use> uses_;
  std::vector<uint32_t> free_;  // into uses_
  std::map<uint64_t, Order> orders_;
  uint64_t order_count_ = 0;  // ever

  std::vector<bool> is_held_;                      // by entry
  std::set<std::pair<UseTime, uint32_t>> by_use_;  // held, with a known use
  uint64_t held_count_ = 0;
  uint32_t hand_ = 0;  // where to look next for one without a known use
};

}  // namespace millrace::store
