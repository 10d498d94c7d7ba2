// The order metric: whether samples were read in a new order every epoch or in the same one.
//
// A new sample is assumed to begin where a thread switches to another file or jumps within one. The
// order of a rank in an epoch is a hash of the sequence of these places, computed for each of its
// threads. If regions tell the indices of samples, the samples metric judges by those instead.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyze/files/sequence_hash.h"
#include "analyze/scan.h"
#include "base/concurrency/mutex.h"
#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

using wire::CallKind;

// What one block contains of one epoch.
struct Piece {
  SequenceHash order;
  uint64_t file_steps = 0;  // changes of file for which the names were compared
  uint64_t file_steps_up = 0;
  uint64_t jumps = 0;  // within a file
  uint64_t jumps_up = 0;

  // Joins the piece that follows this one.
  void append(const Piece& next) {
    order.append(next.order);
    add_steps(next);
  }

  void add_steps(const Piece& other) {
    file_steps += other.file_steps;
    file_steps_up += other.file_steps_up;
    jumps += other.jumps;
    jumps_up += other.jumps_up;
  }
};
static_assert(std::is_trivially_copyable_v<Piece>);

// The names of a million files are scattered over memory and slow to read. After the first 512
// changes of file in a block, every sixteenth gives the share just as well.
bool is_compared(uint64_t step) { return step < 512 || step % 16 == 0; }

class OrderMetric : public Metric {
 public:
  void observe(const Block& block) override {
    Readers readers;
    gather(block, readers);
    const MutexLock lock(mutex_);
    for (const auto& [thread, reader] : readers) {
      for (const auto& [epoch, piece] : reader.pieces) {
        pieces_[{thread, epoch, block.index}] = piece;
      }
    }
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    trace::BytesOut bytes;
    bytes.put_varint(pieces_.size());
    for (const auto& [key, piece] : pieces_) {
      bytes.put_varint(key.thread);
      bytes.put_signed(key.epoch);
      bytes.put_varint(key.block);
      bytes.put(piece);
    }
    out.insert(out.end(), bytes.view().begin(), bytes.view().end());
  }

  Status merge(ByteReader& saved) override {
    const MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
    for (uint64_t i = 0; i < count; ++i) {
      SequenceKey key;
      ASSIGN_OR_RETURN(const uint64_t thread, saved.read_varint());
      ASSIGN_OR_RETURN(const uint64_t epoch, saved.read_varint());
      key.thread = static_cast<uint32_t>(thread);
      key.epoch = trace::unzigzag(epoch);
      ASSIGN_OR_RETURN(key.block, saved.read_varint());
      ASSIGN_OR_RETURN(pieces_[key], saved.read<Piece>());
    }
    return {};
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    Piece all;
    Orders orders;
    for (auto it = pieces_.begin(); it != pieces_.end();) {
      const SequenceKey first = it->first;
      if (first.thread >= context.trace.threads().size()) break;  // from invalid bytes
      Piece sequence;
      for (; it != pieces_.end() && it->first.thread == first.thread &&
             it->first.epoch == first.epoch;
           ++it) {
        sequence.append(it->second);
      }
      all.add_steps(sequence);
      all.order.count += sequence.order.count;
      if (first.epoch < 0) continue;
      const auto group =
          static_cast<uint32_t>(context.group(context.trace.threads()[first.thread].process));
      SequenceHash& sum = orders[{group, first.epoch}];
      sum.hash += SequenceHash::mix(sequence.order.hash);
      sum.count += sequence.order.count;
    }
    judge(all, orders, profile.data);
  }

 private:
  // The position of one thread in a block.
  struct Reader {
    trace::NameIndex file{};
    uint64_t at = 0;
    uint64_t steps = 0;
    int64_t epoch = -2;
    Piece* piece = nullptr;  // of that epoch
    std::map<int64_t, Piece> pieces;
  };
  using Readers = std::unordered_map<uint32_t, Reader>;

  static bool is_data_read(const Block& block, size_t i) {
    const trace::EventColumns& columns = block.columns;
    const CallTraits& traits = traits_of(columns.call[i]);
    return traits.kind == CallKind::kRead && columns.result[i] > 0 &&
           counts_bytes(block.context, traits.layer) &&
           !block.context.system_file[static_cast<size_t>(columns.file[i])];
  }

  static void gather(const Block& block, Readers& readers) {
    const trace::EventColumns& columns = block.columns;
    EpochCursor epochs(block.context.epochs.reading(static_cast<uint32_t>(block.group)));
    Reader* reader = nullptr;
    auto thread = trace::ThreadIndex{~uint32_t{0}};
    for (size_t i = 0; i < columns.size_events(); ++i) {
      if (!is_data_read(block, i)) continue;
      if (reader == nullptr || columns.thread[i] != thread) {
        thread = columns.thread[i];
        reader = &readers[static_cast<uint32_t>(thread)];
      }
      const bool same = columns.file[i] == reader->file;
      const bool known = columns.offset[i] != wire::kNoOffset;
      const uint64_t offset = known ? columns.offset[i] : (same ? reader->at : 0);
      if (!same || offset != reader->at) {
        note_sample(block, columns.file[i], offset, epochs.at(columns.begin_ns[i]), *reader);
      }
      reader->file = columns.file[i];
      reader->at = offset + static_cast<uint64_t>(columns.result[i]);
    }
  }

  static void note_sample(const Block& block, trace::NameIndex file, uint64_t offset, int64_t epoch,
                          Reader& reader) {
    if (reader.piece == nullptr || epoch != reader.epoch) reader.piece = &reader.pieces[epoch];
    reader.epoch = epoch;
    Piece& piece = *reader.piece;
    if (file == reader.file) {
      ++piece.jumps;
      if (offset > reader.at) ++piece.jumps_up;
    } else if (reader.file != trace::NameIndex{} && is_compared(reader.steps++)) {
      ++piece.file_steps;
      const trace::Trace& trace = block.context.trace;
      if (trace.name(reader.file) < trace.name(file)) ++piece.file_steps_up;
    }
    piece.order.add(static_cast<uint64_t>(file) * SequenceHash::kBase + offset);
  }

  static double share(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }

  static void judge(const Piece& all, const Orders& orders, DataUse& data) {
    constexpr double kUp = 0.9;
    const auto [compared, repeated] = count_repeated(orders);
    data.order_repeated = share(repeated, compared);
    data.ascending = share(all.file_steps_up, all.file_steps);
    data.ascending_within = share(all.jumps_up, all.jumps);
    if (all.order.count < kSamplesMin) return;
    const bool files_up = all.file_steps < kSamplesMin || data.ascending >= kUp;
    const bool within_up = all.jumps < kSamplesMin || data.ascending_within >= kUp;
    if (files_up && within_up) {
      data.order = ReadOrder::kSequential;
    } else if (compared > 0 && data.order_repeated > 0.5) {
      data.order = ReadOrder::kFixed;
    } else if (all.jumps >= kSamplesMin && within_up) {
      data.order = ReadOrder::kFilesShuffled;
    } else {
      data.order = ReadOrder::kShuffled;
    }
  }

  mutable Mutex mutex_;
  std::map<SequenceKey, Piece> pieces_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Metric> make_order_metric(const Context& /*context*/, const Limits& /*limits*/) {
  return std::make_unique<OrderMetric>();
}

}  // namespace millrace::analyze
