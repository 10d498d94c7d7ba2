#include <algorithm>
#include <unordered_map>

#include "trace/pack/block_codec.h"
#include "trace/pack/block_shape.h"
#include "trace/pack/numbers.h"
#include "wire/trace_file.h"

namespace millrace::trace {
namespace {

// With more shapes than this, it is the details that differ: they get a column of their own.
constexpr size_t kShapesMax = 1024;
constexpr size_t kShapeCache = 256;
// Offset prediction must be right for one event in eight. Otherwise it only adds a shape.
constexpr size_t kExpectedShare = 8;

struct ShapeKey {
  uint64_t low;
  uint64_t high;
  bool operator==(const ShapeKey&) const = default;
};

ShapeKey key_of(const Shape& shape) {
  return {static_cast<uint64_t>(shape.call) | static_cast<uint64_t>(shape.flags) << 16 |
              static_cast<uint64_t>(shape.forms()) << 24 | static_cast<uint64_t>(shape.error) << 40,
          shape.detail};
}

uint64_t mix(const ShapeKey& key) {
  return (key.low * 0x9e3779b97f4a7c15u) ^ ((key.high + key.low) * 0xbf58476d1ce4e5b9u);
}

struct ShapeKeyHash {
  size_t operator()(const ShapeKey& key) const { return mix(key); }
};

// The shapes of a block, numbered in the order of their first use.
class ShapeList {
 public:
  void clear() {
    shapes_.clear();
    numbers_.clear();
    for (CacheEntry& entry : cache_) entry.number = kNoNumber;
  }

  uint64_t number_of(const Shape& shape) {
    const ShapeKey key = key_of(shape);
    CacheEntry& entry = cache_[(mix(key) >> 40) % kShapeCache];
    if (entry.number != kNoNumber && entry.key == key) return entry.number;
    const auto [found, is_new] = numbers_.try_emplace(key, shapes_.size());
    if (is_new) shapes_.push_back(shape);
    entry = {key, found->second};
    return entry.number;
  }

  const std::vector<Shape>& shapes() const { return shapes_; }

 private:
  static constexpr uint64_t kNoNumber = ~uint64_t{0};
  struct CacheEntry {
    ShapeKey key{};
    uint64_t number = kNoNumber;
  };

  std::vector<Shape> shapes_;
  std::unordered_map<ShapeKey, uint64_t, ShapeKeyHash> numbers_;
  CacheEntry cache_[kShapeCache];
};

ResultForm result_form(uint64_t size, uint64_t offset, int64_t result) {
  const auto bits = static_cast<uint64_t>(result);
  if (bits == size) return ResultForm::kSize;
  if (bits == 0) return ResultForm::kZero;
  return bits == offset ? ResultForm::kOffset : ResultForm::kExplicit;
}

OtherForm other_form(NameIndex file, uint64_t offset) {
  if (file != NameIndex{}) return OtherForm::kExplicit;
  if (offset == wire::kNoOffset) return OtherForm::kNone;
  return offset == 0 ? OtherForm::kZero : OtherForm::kExplicit;
}

}  // namespace

struct BlockEncoder::State {
  void encode(const EventColumns& columns, EventRun run, uint64_t base_ns, BytesOut& out);

  void put_threads(const EventColumns& columns, EventRun run, BytesOut& out);
  void find_gaps(const EventColumns& columns, EventRun run, uint64_t base_ns);
  void find_expected(const EventColumns& columns, EventRun run);
  void find_shapes(const EventColumns& columns, EventRun run, bool with_details);
  Shape shape_of(const EventColumns& columns, size_t event, size_t index, bool with_details);
  void put_shapes(BytesOut& out);
  uint8_t choose_flags(const EventColumns& columns, EventRun run);
  void put_tags(const EventColumns& columns, EventRun run, BytesOut& out);

  NumbersEncoder numbers;
  ShapeList shapes;
  bool expects = false;
  uint64_t expected_count = 0;
  std::unordered_map<uint32_t, uint32_t> thread_numbers;
  std::vector<uint64_t> threads;        // of the block, by number
  std::vector<uint64_t> thread_of;      // the number of each event's thread
  std::vector<uint64_t> previous_end;   // by thread number
  std::vector<uint64_t> gap, duration;  // one per event
  std::vector<uint64_t> expected;       // the expected offset of each event
  std::vector<uint64_t> shape_numbers;  // one per event
  std::vector<uint64_t> files, files_differ, sizes, results, offsets, offsets_differ;
  std::vector<uint64_t> other_files, other_offsets, details;  // only the explicit ones
  uint64_t file_by_call[kCallPlaces];
  uint64_t size_by_call[kCallPlaces];
  uint64_t end_by_file[kFilePlaces];
};

BlockEncoder::BlockEncoder() : state_(std::make_unique<State>()) {}
BlockEncoder::BlockEncoder(BlockEncoder&&) noexcept = default;
BlockEncoder::~BlockEncoder() = default;

void BlockEncoder::encode(const EventColumns& columns, EventRun run, uint64_t base_ns,
                          BytesOut& out) {
  state_->encode(columns, run, base_ns, out);
}

void BlockEncoder::State::encode(const EventColumns& columns, EventRun run, uint64_t base_ns,
                                 BytesOut& out) {
  find_expected(columns, run);
  find_shapes(columns, run, false);
  bool has_details = false;
  if (shapes.shapes().size() > kShapesMax) {
    find_shapes(columns, run, true);
    has_details = true;
  }
  const auto flags =
      static_cast<uint8_t>(choose_flags(columns, run) | (has_details ? kBlockHasDetails : 0));
  out.put(flags);
  put_shapes(out);
  put_threads(columns, run, out);
  find_gaps(columns, run, base_ns);
  if (threads.size() > 1) numbers.encode(thread_of, Signedness::kUnsigned, out);
  if (shapes.shapes().size() > 1) numbers.encode(shape_numbers, Signedness::kUnsigned, out);
  numbers.encode(gap, Signedness::kSigned, out);
  numbers.encode(duration, Signedness::kUnsigned, out);
  const bool files_from_before = (flags & kBlockFilesDiffer) != 0;
  numbers.encode(files_from_before ? files_differ : files,
                 files_from_before ? Signedness::kSigned : Signedness::kUnsigned, out);
  numbers.encode(sizes, Signedness::kUnsigned, out);
  numbers.encode(results, Signedness::kSigned, out);
  const bool offsets_from_expected = (flags & kBlockOffsetsDiffer) != 0;
  numbers.encode(offsets_from_expected ? offsets_differ : offsets,
                 offsets_from_expected ? Signedness::kSigned : Signedness::kUnsigned, out);
  numbers.encode(other_files, Signedness::kUnsigned, out);
  numbers.encode(other_offsets, Signedness::kUnsigned, out);
  if (has_details) numbers.encode(details, Signedness::kUnsigned, out);
  if ((flags & kBlockHasTags) != 0) put_tags(columns, run, out);
}

void BlockEncoder::State::put_threads(const EventColumns& columns, EventRun run, BytesOut& out) {
  thread_numbers.clear();
  threads.clear();
  thread_of.resize(run.count);
  auto last = static_cast<uint32_t>(columns.thread[run.first]);
  thread_numbers.emplace(last, 0);
  threads.push_back(last);
  uint32_t number = 0;
  for (size_t i = 0; i < run.count; ++i) {
    const auto thread = static_cast<uint32_t>(columns.thread[run.first + i]);
    if (thread != last) {
      const auto [found, is_new] =
          thread_numbers.try_emplace(thread, static_cast<uint32_t>(threads.size()));
      if (is_new) threads.push_back(thread);
      number = found->second;
      last = thread;
    }
    thread_of[i] = number;
  }
  out.put_varint(threads.size());
  for (const uint64_t thread : threads) out.put_varint(thread);
}

// Times are stored as gaps: events of a thread follow each other closely, and the gap is mostly the
// same few instructions.
void BlockEncoder::State::find_gaps(const EventColumns& columns, EventRun run, uint64_t base_ns) {
  previous_end.assign(threads.size(), base_ns);
  gap.resize(run.count);
  duration.assign(columns.duration_ns.begin() + static_cast<ptrdiff_t>(run.first),
                  columns.duration_ns.begin() + static_cast<ptrdiff_t>(run.first + run.count));
  for (size_t i = 0; i < run.count; ++i) {
    uint64_t& previous = previous_end[thread_of[i]];
    const uint64_t begin = columns.begin_ns[run.first + i];
    gap[i] = begin - previous;
    previous = begin + duration[i];
  }
}

void BlockEncoder::State::find_expected(const EventColumns& columns, EventRun run) {
  std::fill(std::begin(end_by_file), std::end(end_by_file), 0);
  expected.resize(run.count);
  expected_count = 0;
  uint64_t with_offset = 0;
  for (size_t i = 0; i < run.count; ++i) {
    const size_t event = run.first + i;
    const uint64_t offset = columns.offset[event];
    uint64_t& end = end_by_file[static_cast<uint32_t>(columns.file[event]) % kFilePlaces];
    expected[i] = end;
    if (offset == wire::kNoOffset) continue;
    ++with_offset;
    if (offset == end) ++expected_count;
    const int64_t result = columns.result[event];
    const bool moved =
        result > 0 && result_form(columns.size[event], offset, result) != ResultForm::kOffset;
    end = offset + (moved ? static_cast<uint64_t>(result) : 0);
  }
  expects = expected_count * kExpectedShare > with_offset;
}

Shape BlockEncoder::State::shape_of(const EventColumns& columns, size_t event, size_t index,
                                    bool with_details) {
  Shape shape;
  shape.call = columns.call[event];
  shape.flags = columns.flags[event];
  shape.error = columns.error[event];
  shape.detail = with_details ? 0 : columns.detail[event];
  const size_t call = place_of(shape.call);
  const NameIndex file = columns.file[event];
  if (index > 0 && file == columns.file[event - 1]) {
    shape.file = FileForm::kAsBefore;
  } else if (file_by_call[call] == static_cast<uint32_t>(file)) {
    shape.file = FileForm::kAsLastCall;
  }
  const uint64_t size = columns.size[event];
  if (size_by_call[call] == size) shape.size = SizeForm::kAsLastCall;
  const uint64_t offset = columns.offset[event];
  if (offset == wire::kNoOffset) {
    shape.offset = OffsetForm::kNone;
  } else if (expects && offset == expected[index]) {
    shape.offset = OffsetForm::kExpected;
  }
  shape.result = result_form(size, offset, columns.result[event]);
  shape.other = other_form(columns.other_file[event], columns.other_offset[event]);
  file_by_call[call] = static_cast<uint32_t>(file);
  size_by_call[call] = size;
  return shape;
}

void BlockEncoder::State::find_shapes(const EventColumns& columns, EventRun run,
                                      bool with_details) {
  shapes.clear();
  for (auto* column : {&files, &files_differ, &sizes, &results, &offsets, &offsets_differ,
                       &other_files, &other_offsets, &details}) {
    column->clear();
  }
  std::fill(std::begin(file_by_call), std::end(file_by_call), 0);
  std::fill(std::begin(size_by_call), std::end(size_by_call), 0);
  shape_numbers.resize(run.count);
  uint64_t file_before = 0;
  for (size_t i = 0; i < run.count; ++i) {
    const size_t event = run.first + i;
    const Shape shape = shape_of(columns, event, i, with_details);
    shape_numbers[i] = shapes.number_of(shape);
    if (shape.file == FileForm::kExplicit) {
      const auto file = static_cast<uint64_t>(columns.file[event]);
      files.push_back(file);
      files_differ.push_back(file - file_before);
      file_before = file;
    }
    if (shape.size == SizeForm::kExplicit) sizes.push_back(columns.size[event]);
    if (shape.result == ResultForm::kExplicit) {
      results.push_back(static_cast<uint64_t>(columns.result[event]));
    }
    if (shape.offset == OffsetForm::kExplicit) {
      offsets.push_back(columns.offset[event]);
      offsets_differ.push_back(columns.offset[event] - expected[i]);
    }
    if (shape.other == OtherForm::kExplicit) {
      other_files.push_back(static_cast<uint64_t>(columns.other_file[event]));
      other_offsets.push_back(columns.other_offset[event]);
    }
    if (with_details) details.push_back(columns.detail[event]);
  }
}

void BlockEncoder::State::put_shapes(BytesOut& out) {
  out.put_varint(shapes.shapes().size());
  for (const Shape& shape : shapes.shapes()) {
    out.put_varint(static_cast<uint16_t>(shape.call));
    out.put(shape.flags);
    out.put_varint(shape.forms());
    out.put_varint(shape.error);
    out.put_varint(shape.detail);
  }
}

uint8_t BlockEncoder::State::choose_flags(const EventColumns& columns, EventRun run) {
  uint8_t flags = 0;
  if (numbers.estimate(offsets_differ, Signedness::kSigned) <
      numbers.estimate(offsets, Signedness::kUnsigned)) {
    flags |= kBlockOffsetsDiffer;
  }
  if (numbers.estimate(files_differ, Signedness::kSigned) <
      numbers.estimate(files, Signedness::kUnsigned)) {
    flags |= kBlockFilesDiffer;
  }
  if (!columns.tag_begin.empty() &&
      columns.tag_begin[run.first] != columns.tag_begin[run.first + run.count]) {
    flags |= kBlockHasTags;
  }
  return flags;
}

void BlockEncoder::State::put_tags(const EventColumns& columns, EventRun run, BytesOut& out) {
  std::vector<uint64_t> counts;
  for (size_t i = 0; i < run.count; ++i) {
    counts.push_back(columns.tag_begin[run.first + i + 1] - columns.tag_begin[run.first + i]);
  }
  std::vector<uint64_t> keys;
  std::vector<uint64_t> kinds;
  std::vector<uint64_t> values;
  for (size_t i = columns.tag_begin[run.first]; i < columns.tag_begin[run.first + run.count]; ++i) {
    keys.push_back(static_cast<uint64_t>(columns.tags[i].key));
    kinds.push_back(static_cast<uint64_t>(columns.tags[i].kind));
    values.push_back(columns.tags[i].value);
  }
  numbers.encode(counts, Signedness::kUnsigned, out);
  numbers.encode(keys, Signedness::kUnsigned, out);
  numbers.encode(kinds, Signedness::kUnsigned, out);
  numbers.encode(values, Signedness::kUnsigned, out);
}

Status check_columns(const EventColumns& columns) {
  const size_t count = columns.size_events();
  Status filled;
  for_each_column([&](auto column) {
    const size_t length = (columns.*column).size();
    if (filled.ok() && length != count) {
      filled = fail(Errc::kInvalidArgument,
                    "a column has {} entries for {} events; fill every column", length, count);
    }
  });
  RETURN_IF_ERROR(filled);
  if (columns.tag_begin.empty()) return {};
  const bool fits = columns.tag_begin.size() == count + 1 &&
                    std::is_sorted(columns.tag_begin.begin(), columns.tag_begin.end()) &&
                    columns.tag_begin.back() <= columns.tags.size();
  if (fits) return {};
  return fail(Errc::kInvalidArgument, "the tags do not match the {} events", count);
}

}  // namespace millrace::trace
