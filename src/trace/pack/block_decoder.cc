#include <algorithm>
#include <bit>

#include "trace/pack/block_codec.h"
#include "trace/pack/block_shape.h"
#include "trace/pack/numbers.h"
#include "wire/trace_file.h"

namespace millrace::trace {
namespace {

void resize(EventColumns& columns, size_t count) {
  for_each_column([&](auto column) { (columns.*column).resize(count); });
  columns.tag_begin.clear();
  columns.tags.clear();
}

uint64_t greatest(std::span<const uint64_t> values) {
  uint64_t greatest = 0;
  for (const uint64_t value : values) greatest = std::max(greatest, value);
  return greatest;
}

Result<uint8_t> read_flags(ByteReader& in) {
  ASSIGN_OR_RETURN(const uint8_t flags, in.read<uint8_t>());
  if ((flags & ~kBlockFlagsKnown) != 0) {
    return fail(Errc::kCorrupt, "the block has unknown flags {:#x}", flags);
  }
  return flags;
}

Result<uint64_t> read_shape_count(ByteReader& in, size_t count) {
  ASSIGN_OR_RETURN(const uint64_t shape_count, in.read_varint());
  if (shape_count == 0 || shape_count > count) {
    return fail(Errc::kCorrupt, "{} events claim {} shapes", count, shape_count);
  }
  return shape_count;
}

Result<Shape> read_shape(ByteReader& in) {
  Shape shape;
  ASSIGN_OR_RETURN(const uint64_t call, in.read_varint());
  ASSIGN_OR_RETURN(shape.flags, in.read<uint8_t>());
  ASSIGN_OR_RETURN(const uint64_t forms, in.read_varint());
  ASSIGN_OR_RETURN(const uint64_t error, in.read_varint());
  ASSIGN_OR_RETURN(const uint64_t detail, in.read_varint());
  if (!shape.set_forms(forms) || call > UINT16_MAX || error > UINT16_MAX || detail > UINT32_MAX) {
    return fail(Errc::kCorrupt, "the shape that ends at byte {} is invalid", in.position());
  }
  shape.call = static_cast<wire::Call>(call);
  shape.error = static_cast<uint16_t>(error);
  shape.detail = static_cast<uint32_t>(detail);
  return shape;
}

}  // namespace

Result<uint32_t> block_levels(ByteView payload, uint32_t count) {
  ByteReader in(payload);
  RETURN_IF_ERROR(read_flags(in));
  ASSIGN_OR_RETURN(const uint64_t shape_count, read_shape_count(in, count));
  uint32_t levels = 0;
  for (uint64_t i = 0; i < shape_count; ++i) {
    ASSIGN_OR_RETURN(const Shape shape, read_shape(in));
    levels |= level_bit(shape.call);
  }
  return levels;
}

struct BlockDecoder::State {
  Status decode(ByteReader& in, EventColumns& columns, uint64_t base_ns);

  Status read_shapes(ByteReader& in, size_t count);
  Status read_threads(ByteReader& in, size_t count);
  Status read_shape_numbers(ByteReader& in, size_t count);
  Status read_times(ByteReader& in, uint64_t base_ns, EventColumns& columns);
  Status read_explicit(ByteReader& in, size_t count);
  Status read_tags(ByteReader& in, EventColumns& columns);
  Status read_column(ByteReader& in, std::vector<uint64_t>& column, size_t count,
                     uint64_t value_max, const char* what);
  void fill(EventColumns& columns);
  void fill_from_shapes(EventColumns& columns);

  NumbersDecoder numbers;
  uint8_t flags = 0;
  std::vector<Shape> shapes;
  std::vector<uint64_t> uses;  // events per shape
  std::vector<uint64_t> threads;
  std::vector<uint64_t> previous_end;
  std::vector<uint64_t> thread_of, shape_of, gap;
  std::vector<uint64_t> files, sizes, results, offsets, other_files, other_offsets, details;
  uint32_t file_by_call[kCallPlaces];
  uint64_t size_by_call[kCallPlaces];
  uint64_t end_by_file[kFilePlaces];
};

BlockDecoder::BlockDecoder() : state_(std::make_unique<State>()) {}
BlockDecoder::BlockDecoder(BlockDecoder&&) noexcept = default;
BlockDecoder::~BlockDecoder() = default;

Status BlockDecoder::decode(ByteView payload, uint32_t count, uint64_t base_ns,
                            EventColumns& columns) {
  if (count == 0 || count > wire::kTraceBlockEventsMax) {
    return fail(Errc::kCorrupt, "the block claims {} events; a block has 1 to {}", count,
                wire::kTraceBlockEventsMax);
  }
  resize(columns, count);
  ByteReader in(payload);
  RETURN_IF_ERROR(state_->decode(in, columns, base_ns));
  if (!in.at_end()) {
    return fail(Errc::kCorrupt, "{} bytes are left over after the block's columns", in.remaining());
  }
  return {};
}

Status BlockDecoder::State::decode(ByteReader& in, EventColumns& columns, uint64_t base_ns) {
  const size_t count = columns.size_events();
  ASSIGN_OR_RETURN(flags, read_flags(in));
  RETURN_IF_ERROR(read_shapes(in, count));
  RETURN_IF_ERROR(read_threads(in, count));
  RETURN_IF_ERROR(read_shape_numbers(in, count));
  RETURN_IF_ERROR(read_times(in, base_ns, columns));
  RETURN_IF_ERROR(read_explicit(in, count));
  fill(columns);
  fill_from_shapes(columns);
  if ((flags & kBlockHasTags) != 0) RETURN_IF_ERROR(read_tags(in, columns));
  return {};
}

Status BlockDecoder::State::read_column(ByteReader& in, std::vector<uint64_t>& column, size_t count,
                                        uint64_t value_max, const char* what) {
  column.resize(count);
  RETURN_IF_ERROR(numbers.decode(in, column).within(what));
  if (const uint64_t found = greatest(column); found > value_max) {
    return fail(Errc::kCorrupt, "{}: the number {} exceeds {}", what, found, value_max);
  }
  return {};
}

Status BlockDecoder::State::read_shapes(ByteReader& in, size_t count) {
  ASSIGN_OR_RETURN(const uint64_t shape_count, read_shape_count(in, count));
  shapes.resize(shape_count);
  for (Shape& shape : shapes) {
    ASSIGN_OR_RETURN(shape, read_shape(in));
  }
  return {};
}

Status BlockDecoder::State::read_threads(ByteReader& in, size_t count) {
  ASSIGN_OR_RETURN(const uint64_t thread_count, in.read_varint());
  if (thread_count == 0 || thread_count > count) {
    return fail(Errc::kCorrupt, "{} events claim {} threads", count, thread_count);
  }
  threads.resize(thread_count);
  for (uint64_t& thread : threads) {
    ASSIGN_OR_RETURN(thread, in.read_varint());
    if (thread > UINT32_MAX) return fail(Errc::kCorrupt, "{} is not a thread number", thread);
  }
  if (thread_count == 1) return {};
  return read_column(in, thread_of, count, thread_count - 1, "threads");
}

Status BlockDecoder::State::read_shape_numbers(ByteReader& in, size_t count) {
  uses.assign(shapes.size(), 0);
  if (shapes.size() == 1) {
    uses[0] = count;
    return {};
  }
  RETURN_IF_ERROR(read_column(in, shape_of, count, shapes.size() - 1, "shapes"));
  for (const uint64_t shape : shape_of) ++uses[shape];
  return {};
}

Status BlockDecoder::State::read_times(ByteReader& in, uint64_t base_ns, EventColumns& columns) {
  const size_t count = columns.size_events();
  gap.resize(count);
  RETURN_IF_ERROR(numbers.decode(in, gap).within("gaps"));
  RETURN_IF_ERROR(numbers.decode(in, columns.duration_ns).within("durations"));
  if (threads.size() == 1) {
    uint64_t end = base_ns;
    for (size_t i = 0; i < count; ++i) {
      columns.begin_ns[i] = end + gap[i];
      end = columns.begin_ns[i] + columns.duration_ns[i];
    }
    const auto thread = static_cast<ThreadIndex>(threads[0]);
    std::fill(columns.thread.begin(), columns.thread.end(), thread);
    return {};
  }
  previous_end.assign(threads.size(), base_ns);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t number = thread_of[i];
    columns.begin_ns[i] = previous_end[number] + gap[i];
    previous_end[number] = columns.begin_ns[i] + columns.duration_ns[i];
    columns.thread[i] = static_cast<ThreadIndex>(threads[number]);
  }
  return {};
}

// The shapes, and how often each is used, determine how many explicit values each column has.
Status BlockDecoder::State::read_explicit(ByteReader& in, size_t count) {
  size_t file_count = 0;
  size_t size_count = 0;
  size_t result_count = 0;
  size_t offset_count = 0;
  size_t other_count = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape& shape = shapes[i];
    if (shape.file == FileForm::kExplicit) file_count += uses[i];
    if (shape.size == SizeForm::kExplicit) size_count += uses[i];
    if (shape.result == ResultForm::kExplicit) result_count += uses[i];
    if (shape.offset == OffsetForm::kExplicit) offset_count += uses[i];
    if (shape.other == OtherForm::kExplicit) other_count += uses[i];
  }
  RETURN_IF_ERROR(read_column(in, files, file_count, UINT64_MAX, "files"));
  if ((flags & kBlockFilesDiffer) != 0) {
    uint64_t before = 0;
    for (uint64_t& file : files) file = before += file;
  }
  if (greatest(files) > UINT32_MAX) return fail(Errc::kCorrupt, "files: a number is too large");
  RETURN_IF_ERROR(read_column(in, sizes, size_count, UINT64_MAX, "sizes"));
  RETURN_IF_ERROR(read_column(in, results, result_count, UINT64_MAX, "results"));
  RETURN_IF_ERROR(read_column(in, offsets, offset_count, UINT64_MAX, "offsets"));
  RETURN_IF_ERROR(read_column(in, other_files, other_count, UINT32_MAX, "other files"));
  RETURN_IF_ERROR(read_column(in, other_offsets, other_count, UINT64_MAX, "other offsets"));
  const bool has_details = (flags & kBlockHasDetails) != 0;
  return read_column(in, details, has_details ? count : 0, UINT32_MAX, "details");
}

// Turns shapes and explicit values into columns. Cannot read past a vector's end: read_explicit has
// counted what each column takes.
void BlockDecoder::State::fill(EventColumns& columns) {
  std::fill(std::begin(file_by_call), std::end(file_by_call), 0);
  std::fill(std::begin(size_by_call), std::end(size_by_call), 0);
  std::fill(std::begin(end_by_file), std::end(end_by_file), 0);
  const bool one_shape = shapes.size() == 1;
  const bool offsets_differ = (flags & kBlockOffsetsDiffer) != 0;
  const uint64_t* next_file = files.data();
  const uint64_t* next_size = sizes.data();
  const uint64_t* next_result = results.data();
  const uint64_t* next_offset = offsets.data();
  uint32_t file = 0;
  const size_t count = columns.size_events();
  for (size_t i = 0; i < count; ++i) {
    const Shape& shape = shapes[one_shape ? 0 : shape_of[i]];
    const size_t call = place_of(shape.call);
    if (shape.file == FileForm::kExplicit) {
      file = static_cast<uint32_t>(*next_file++);
    } else if (shape.file == FileForm::kAsLastCall) {
      file = file_by_call[call];
    }
    file_by_call[call] = file;
    const uint64_t size = shape.size == SizeForm::kExplicit ? *next_size++ : size_by_call[call];
    size_by_call[call] = size;
    uint64_t result = 0;
    if (shape.result == ResultForm::kExplicit) {
      result = *next_result++;
    } else if (shape.result == ResultForm::kSize) {
      result = size;
    }
    uint64_t offset = wire::kNoOffset;
    if (shape.offset != OffsetForm::kNone) {
      uint64_t& end = end_by_file[file % kFilePlaces];
      offset = end;
      if (shape.offset == OffsetForm::kExplicit) {
        offset = (offsets_differ ? end : 0) + *next_offset++;
      }
      end = offset + (static_cast<int64_t>(result) > 0 ? result : 0);
    }
    if (shape.result == ResultForm::kOffset) result = offset;
    columns.file[i] = static_cast<NameIndex>(file);
    columns.size[i] = size;
    columns.offset[i] = offset;
    columns.result[i] = static_cast<int64_t>(result);
  }
}

// Fills what depends on the shape alone. With a single shape, this is one fill per column.
void BlockDecoder::State::fill_from_shapes(EventColumns& columns) {
  const size_t count = columns.size_events();
  if (shapes.size() == 1 && shapes[0].other != OtherForm::kExplicit) {
    const Shape& shape = shapes[0];
    const uint64_t other_offset = shape.other == OtherForm::kNone ? wire::kNoOffset : 0;
    std::fill(columns.call.begin(), columns.call.end(), shape.call);
    std::fill(columns.flags.begin(), columns.flags.end(), shape.flags);
    std::fill(columns.error.begin(), columns.error.end(), shape.error);
    std::fill(columns.detail.begin(), columns.detail.end(), shape.detail);
    std::fill(columns.other_file.begin(), columns.other_file.end(), NameIndex{});
    std::fill(columns.other_offset.begin(), columns.other_offset.end(), other_offset);
  } else {
    size_t next_other = 0;
    for (size_t i = 0; i < count; ++i) {
      const Shape& shape = shapes[shapes.size() == 1 ? 0 : shape_of[i]];
      columns.call[i] = shape.call;
      columns.flags[i] = shape.flags;
      columns.error[i] = shape.error;
      columns.detail[i] = shape.detail;
      columns.other_file[i] = NameIndex{};
      columns.other_offset[i] = shape.other == OtherForm::kNone ? wire::kNoOffset : 0;
      if (shape.other == OtherForm::kExplicit) [[unlikely]] {
        columns.other_file[i] = static_cast<NameIndex>(other_files[next_other]);
        columns.other_offset[i] = other_offsets[next_other++];
      }
    }
  }
  if ((flags & kBlockHasDetails) == 0) return;
  for (size_t i = 0; i < count; ++i) columns.detail[i] = static_cast<uint32_t>(details[i]);
}

Status BlockDecoder::State::read_tags(ByteReader& in, EventColumns& columns) {
  const size_t count = columns.size_events();
  std::vector<uint64_t> counts;
  RETURN_IF_ERROR(read_column(in, counts, count, wire::kTraceBlockTagsMax, "tag counts"));
  columns.tag_begin.resize(count + 1);
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    columns.tag_begin[i] = static_cast<uint32_t>(total);
    total += counts[i];
    if (total > wire::kTraceBlockTagsMax) {
      return fail(Errc::kCorrupt, "the block claims more than {} tags", wire::kTraceBlockTagsMax);
    }
  }
  columns.tag_begin[count] = static_cast<uint32_t>(total);
  std::vector<uint64_t> keys;
  std::vector<uint64_t> kinds;
  std::vector<uint64_t> values;
  RETURN_IF_ERROR(read_column(in, keys, total, UINT32_MAX, "tag keys"));
  RETURN_IF_ERROR(read_column(in, kinds, total, UINT8_MAX, "tag kinds"));
  RETURN_IF_ERROR(read_column(in, values, total, UINT64_MAX, "tag values"));
  columns.tags.resize(total);
  for (size_t i = 0; i < total; ++i) {
    columns.tags[i] = {static_cast<NameIndex>(keys[i]), static_cast<wire::TagKind>(kinds[i]),
                       values[i]};
  }
  return {};
}

}  // namespace millrace::trace
