// Files that are written from start to end from a small buffer.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "base/io/gzip.h"
#include "bench/generate/file_job.h"
#include "format/arrays/npy.h"
#include "format/records/tfrecord.h"
#include "format/records/zip.h"

namespace millrace::bench {
namespace {

using data::ElementType;
using data::Shape;

constexpr std::string_view kIndexEnds[] = {".off.idx", ".sz.idx"};

// The last axis is the sample, as DLIO writes npz and npy.
Result<Shape> shape_with_samples(const Layout& layout, FileId file) {
  const Shape shape = layout.record_shape(file);
  std::vector<uint64_t> lengths(shape.lengths().begin(), shape.lengths().end());
  lengths.push_back(layout.samples_per_file());
  auto with_samples = Shape::make(lengths);
  if (!with_samples.ok()) return std::move(with_samples).error().within("dataset.record_dims");
  return with_samples;
}

// ---- npy and npz ----

// Copies elements of one sample to their places among those of the others.
void scatter(ByteView from, size_t element_bytes, size_t stride_bytes, std::byte* to) {
  if (element_bytes == 1) {
    for (const std::byte byte : from) {
      *to = byte;
      to += stride_bytes;
    }
    return;
  }
  for (size_t at = 0; at < from.size(); at += element_bytes, to += stride_bytes) {
    std::memcpy(to, from.data() + at, element_bytes);
  }
}

constexpr size_t kSide = 16;      // of the squares of bytes that are transposed
constexpr size_t kTogether = 64;  // samples: a cache line of the output

using Row = uint8_t __attribute__((vector_size(kSide)));

// Byte r of row c becomes byte c of row r. Each round puts the bytes of row i and of row i + 8 next
// to each other; after four rounds, a byte is where its row and column are exchanged.
void transpose(std::array<Row, kSide>& rows) {
  for (int round = 0; round < 4; ++round) {
    std::array<Row, kSide> mixed;
    for (size_t i = 0; i < kSide / 2; ++i) {
      const Row& a = rows[i];
      const Row& b = rows[i + kSide / 2];
      mixed[2 * i] =
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      mixed[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                 14, 30, 15, 31);
    }
    rows = mixed;
  }
}

// scatter() for single bytes of kTogether samples, whose parts follow each other in `parts`.
void scatter_together(ByteView parts, size_t stride_bytes, std::byte* to) {
  const size_t part_bytes = parts.size() / kTogether;
  std::array<Row, kSide> rows;
  size_t at = 0;
  for (; at + kSide <= part_bytes; at += kSide) {
    for (size_t first = 0; first < kTogether; first += kSide) {
      for (size_t i = 0; i < kSide; ++i) {
        std::memcpy(&rows[i], parts.data() + (first + i) * part_bytes + at, kSide);
      }
      transpose(rows);
      for (size_t i = 0; i < kSide; ++i) {
        std::memcpy(to + (at + i) * stride_bytes + first, &rows[i], kSide);
      }
    }
  }
  for (size_t i = 0; i < kTogether; ++i) {
    scatter(parts.subspan(i * part_bytes + at, part_bytes - at), 1, stride_bytes,
            to + at * stride_bytes + i);
  }
}

// Appends the records of all samples, whose elements alternate.
Status append_alternating(const FileJob& job, BlockFile& out, const BlockFile::Seen& seen) {
  const Layout& layout = job.plan.layout;
  const size_t element_bytes = data::element_bytes(layout.element_type());
  const auto stride = static_cast<size_t>(layout.samples_per_file() * element_bytes);
  const uint64_t record_bytes = layout.record_bytes(job.file);
  const bool may_gather = element_bytes == 1 && layout.samples_per_file() >= kTogether;
  const size_t tile_bytes = std::max<size_t>(
      Content::kAlignment, BlockFile::kBlockBytes / static_cast<size_t>(layout.samples_per_file()) /
                               Content::kAlignment * Content::kAlignment);
  std::vector<std::byte> parts(tile_bytes * (may_gather ? kTogether : 1));
  for (uint64_t at = 0; at < record_bytes; at += tile_bytes) {
    const auto part_bytes = static_cast<size_t>(std::min<uint64_t>(tile_bytes, record_bytes - at));
    const MutableByteView tile =
        job.rooms.record.room(part_bytes * static_cast<size_t>(layout.samples_per_file()));
    const auto part = [&](size_t i) {
      return std::span(parts).subspan(i * part_bytes, part_bytes);
    };
    for (uint64_t sample = 0; sample < layout.samples_per_file();) {
      const bool together = may_gather && sample + kTogether <= layout.samples_per_file();
      const size_t count = together ? kTogether : 1;
      for (size_t i = 0; i < count; ++i) {
        job.plan.content.fill(record_of(layout, {.file = job.file, .sample = sample + i}), at,
                              part(i));
      }
      std::byte* const to = tile.data() + sample * element_bytes;
      if (together) {
        scatter_together(std::span(parts).first(part_bytes * kTogether), stride, to);
      } else {
        scatter(part(0), element_bytes, stride, to);
      }
      sample += count;
    }
    if (seen) seen(tile);
    RETURN_IF_ERROR(out.append(tile));
  }
  return {};
}

Status append_records(const FileJob& job, BlockFile& out, const BlockFile::Seen& seen) {
  if (job.plan.layout.samples_per_file() > 1) return append_alternating(job, out, seen);
  return out.append_array(job.plan.content, record_of(job.plan.layout, {.file = job.file}), seen);
}

Status write_npy(const FileJob& job, BlockFile& out) {
  const Layout& layout = job.plan.layout;
  ASSIGN_OR_RETURN(const Shape shape, shape_with_samples(layout, job.file));
  ASSIGN_OR_RETURN(const std::string header, format::npy_header(layout.element_type(), shape));
  RETURN_IF_ERROR(out.append(bytes_of(header)));
  return append_records(job, out, nullptr);
}

// The arrays of an npz file beside the record: labels, and those of dataset.fields.
struct Member {
  std::string name;
  ElementType type = ElementType::kI64;
  Shape shape;
  std::optional<size_t> extra = std::nullopt;  // its index in dataset.fields; without one: zeros

  uint64_t size_bytes() const { return shape.element_count() * data::element_bytes(type); }
};

Result<std::vector<Member>> members_of(const DatasetPlan& plan) {
  const uint64_t samples = plan.layout.samples_per_file();
  std::vector<Member> members = {{.name = "y", .type = ElementType::kI64, .shape = {samples}}};
  for (size_t i = 0; i < plan.dataset().fields.size(); ++i) {
    const ExtraField& field = plan.dataset().fields[i];
    std::vector<uint64_t> lengths = {samples};
    lengths.insert(lengths.end(), field.dims.begin(), field.dims.end());
    auto shape = Shape::make(lengths);
    if (!shape.ok()) return std::move(shape).error().within("dataset.fields");
    members.push_back({.name = field.name, .type = field.type, .shape = *shape, .extra = i});
  }
  return members;
}

// Streams a member whose checksum, and length if it is deflated, are known only at its end: writes
// the head again then. Deflates as numpy.savez_compressed does.
Status write_member(const DatasetConfig& dataset, BlockFile& out, format::ZipBuilder& zip,
                    const std::string& name, std::string_view header, uint64_t data_bytes,
                    const std::function<Status(const BlockFile::Seen&)>& append) {
  const bool deflates = has_deflated_members(dataset);
  const uint64_t size = header.size() + data_bytes;
  const std::string file_name = name + ".npy";
  const auto head = [&](format::ZipBuilder& builder, uint64_t packed_bytes, uint32_t crc) {
    return deflates ? builder.deflated_head(file_name, size, packed_bytes, crc)
                    : builder.head(file_name, size, crc);
  };
  const uint64_t head_at = out.size_bytes();
  format::ZipBuilder unfinished = zip;
  const std::string first_head = head(unfinished, 0, 0);
  RETURN_IF_ERROR(out.append(bytes_of(first_head)));
  if (deflates) RETURN_IF_ERROR(out.begin_deflated(static_cast<int>(dataset.compression_level)));
  RETURN_IF_ERROR(out.append(bytes_of(header)));
  uint32_t crc = zip_crc32(bytes_of(header));
  RETURN_IF_ERROR(append([&crc](ByteView bytes) { crc = zip_crc32(bytes, crc); }));
  if (deflates) RETURN_IF_ERROR(out.end_deflated());
  const uint64_t packed_bytes = out.size_bytes() - head_at - first_head.size();
  return out.overwrite(head_at, bytes_of(head(zip, packed_bytes, crc)));
}

Status append_member(const FileJob& job, BlockFile& out, const Member& member,
                     const BlockFile::Seen& seen) {
  if (!member.extra) return out.append_zeros(member.size_bytes(), seen);
  const DatasetPlan& plan = job.plan;
  for (uint64_t sample = 0; sample < plan.layout.samples_per_file(); ++sample) {
    ASSIGN_OR_RETURN(
        const std::vector<SampleArray> arrays,
        sample_arrays(plan.dataset(), plan.layout, {.file = job.file, .sample = sample}));
    RETURN_IF_ERROR(out.append_array(plan.content, arrays[1 + *member.extra].content, seen));
  }
  return {};
}

Status write_npz(const FileJob& job, BlockFile& out) {
  const Layout& layout = job.plan.layout;
  format::ZipBuilder zip;
  const auto write = [&](const std::string& name, std::string_view header, uint64_t data_bytes,
                         const std::function<Status(const BlockFile::Seen&)>& append) {
    return write_member(job.plan.dataset(), out, zip, name, header, data_bytes, append);
  };
  ASSIGN_OR_RETURN(const Shape shape, shape_with_samples(layout, job.file));
  ASSIGN_OR_RETURN(const std::string header, format::npy_header(layout.element_type(), shape));
  RETURN_IF_ERROR(
      write("x", header, layout.payload_bytes(job.file),
            [&](const BlockFile::Seen& seen) { return append_records(job, out, seen); }));
  ASSIGN_OR_RETURN(const std::vector<Member> members, members_of(job.plan));
  for (const Member& member : members) {
    ASSIGN_OR_RETURN(const std::string head, format::npy_header(member.type, member.shape));
    RETURN_IF_ERROR(write(member.name, head, member.size_bytes(), [&](const BlockFile::Seen& seen) {
      return append_member(job, out, member, seen);
    }));
  }
  return out.append(bytes_of(zip.tail()));
}

// What write_npz() writes, without the arrays.
uint64_t npz_bytes(const DatasetPlan& plan, FileId file) {
  format::ZipBuilder zip;
  uint64_t sum = 0;
  const auto add = [&](const std::string& name, ElementType type, const Shape& shape) {
    const auto header = format::npy_header(type, shape);
    const uint64_t size =
        (header.ok() ? header->size() : 0) + shape.element_count() * data::element_bytes(type);
    sum += zip.head(name + ".npy", size, 0).size() + size;
  };
  const auto shape = shape_with_samples(plan.layout, file);
  const auto members = members_of(plan);
  if (!shape.ok() || !members.ok()) return 0;  // writing the file will fail
  add("x", plan.layout.element_type(), *shape);
  for (const Member& member : *members) add(member.name, member.type, member.shape);
  return sum + zip.tail().size();
}

// ---- tfrecord ----

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// The key and length of a field of a message.
std::string message_head(uint32_t field, uint64_t size_bytes) {
  std::string head(1, static_cast<char>(field << 3 | 2));
  put_varint(head, size_bytes);
  return head;
}

std::string message(uint32_t field, std::string_view body) {
  return message_head(field, body.size()).append(body);
}

// The bytes around the record in a tf.train.Example with the features "image" and "size".
struct ExampleFrame {
  std::string before;
  std::string after;
};

ExampleFrame example_frame(uint64_t record_bytes) {
  std::string number;
  put_varint(number, record_bytes);
  const std::string size_feature =
      message(1, message(1, "size") + message(2, message(3, message(1, number))));
  // From the inside out: BytesList, Feature, map entry. Each head counts what is in it.
  std::string before = message_head(1, record_bytes);
  before = message_head(1, before.size() + record_bytes) + before;
  before = message(1, "image") + message_head(2, before.size() + record_bytes) + before;
  before = message_head(1, before.size() + record_bytes) + before;
  before = message_head(1, before.size() + record_bytes + size_feature.size()) + before;
  return {.before = std::move(before), .after = size_feature};
}

template <typename T>
ByteView view_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

Status write_tfrecord(const FileJob& job, BlockFile& out) {
  const Layout& layout = job.plan.layout;
  const uint64_t record_bytes = layout.record_bytes(job.file);
  const ExampleFrame frame = example_frame(record_bytes);
  const uint64_t length = frame.before.size() + record_bytes + frame.after.size();
  const uint32_t length_crc = format::masked_crc32c(view_of(length));
  const uint32_t before_crc = crc32c(bytes_of(frame.before));
  std::string head(text_of(view_of(length)));
  head.append(text_of(view_of(length_crc))).append(frame.before);
  for (uint64_t sample = 0; sample < layout.samples_per_file(); ++sample) {
    uint32_t crc = before_crc;
    RETURN_IF_ERROR(out.append(bytes_of(head)));
    RETURN_IF_ERROR(out.append_array(job.plan.content,
                                     record_of(layout, {.file = job.file, .sample = sample}),
                                     [&crc](ByteView bytes) { crc = crc32c(bytes, crc); }));
    RETURN_IF_ERROR(out.append(bytes_of(frame.after)));
    const uint32_t record_crc = format::mask_crc32c(crc32c(bytes_of(frame.after), crc));
    RETURN_IF_ERROR(out.append(view_of(record_crc)));
  }
  return {};
}

uint64_t tfrecord_bytes(const DatasetPlan& plan, FileId file) {
  const uint64_t record_bytes = plan.layout.record_bytes(file);
  const ExampleFrame frame = example_frame(record_bytes);
  return plan.layout.samples_per_file() *
         (format::kTfrecordHeadBytes + frame.before.size() + record_bytes + frame.after.size() +
          format::kTfrecordTailBytes);
}

// ---- raw and indexed_binary ----

Status write_raw(const FileJob& job, BlockFile& out) {
  const Layout& layout = job.plan.layout;
  for (uint64_t sample = 0; sample < layout.samples_per_file(); ++sample) {
    RETURN_IF_ERROR(out.append_array(
        job.plan.content, record_of(layout, {.file = job.file, .sample = sample}), nullptr));
  }
  return {};
}

// The offsets of the records, then their lengths, as 64-bit numbers.
Status write_index(const FileJob& job) {
  const uint64_t record_bytes = job.plan.layout.record_bytes(job.file);
  for (const std::string_view end : kIndexEnds) {
    const bool is_offsets = end == kIndexEnds[0];
    ASSIGN_OR_RETURN(BlockFile out, BlockFile::create(job.path + std::string(end), job.rooms.block,
                                                      job.written, job.plan.block_bytes()));
    for (uint64_t sample = 0; sample < job.plan.layout.samples_per_file(); ++sample) {
      const uint64_t number = is_offsets ? sample * record_bytes : record_bytes;
      RETURN_IF_ERROR(out.append(view_of(number)));
    }
    RETURN_IF_ERROR(out.close());
  }
  return {};
}

// ---- synthetic: DLIO writes only the number of the file ----

std::string synthetic_text(const Layout& layout, FileId file) {
  const uint64_t before = file.split == Split::kTrain ? 0 : layout.file_count(Split::kTrain);
  return std::to_string(before + file.index);
}

Status write_synthetic(const FileJob& job, BlockFile& out) {
  return out.append(bytes_of(synthetic_text(job.plan.layout, job.file)));
}

uint64_t payload_of(const DatasetPlan& plan, FileId file) {
  return plan.layout.payload_bytes(file);
}

uint64_t npy_bytes(const DatasetPlan& plan, FileId file) {
  const auto shape = shape_with_samples(plan.layout, file);
  if (!shape.ok()) return 0;
  const auto header = format::npy_header(plan.layout.element_type(), *shape);
  return header.ok() ? header->size() + plan.layout.payload_bytes(file) : 0;
}

uint64_t synthetic_bytes(const DatasetPlan& plan, FileId file) {
  return synthetic_text(plan.layout, file).size();
}

struct StreamedEntry {
  DatasetFormat format;
  Status (*write)(const FileJob& job, BlockFile& out);
  uint64_t (*size_bytes)(const DatasetPlan& plan, FileId file);
};

constexpr StreamedEntry kStreamed[] = {
    {DatasetFormat::kNpz, &write_npz, &npz_bytes},
    {DatasetFormat::kNpy, &write_npy, &npy_bytes},
    {DatasetFormat::kTfrecord, &write_tfrecord, &tfrecord_bytes},
    {DatasetFormat::kRaw, &write_raw, &payload_of},
    {DatasetFormat::kIndexedBinary, &write_raw, &payload_of},
    {DatasetFormat::kMmapIndexedBinary, &write_raw, &payload_of},
    {DatasetFormat::kSynthetic, &write_synthetic, &synthetic_bytes},
};

const StreamedEntry* streamed_entry(DatasetFormat format) {
  for (const StreamedEntry& entry : kStreamed) {
    if (entry.format == format) return &entry;
  }
  return nullptr;
}

}  // namespace

bool has_deflated_members(const DatasetConfig& dataset) {
  return dataset.format == DatasetFormat::kNpz && dataset.compression == Compression::kZip;
}

bool is_streamed(const DatasetConfig& dataset) {
  if (dataset.compression != Compression::kNone && !has_deflated_members(dataset)) return false;
  if (!dataset.fields.empty() && dataset.format != DatasetFormat::kNpz) return false;
  return streamed_entry(dataset.format) != nullptr;
}

Status write_streamed_file(const FileJob& job) {
  if (job.plan.dataset().traits().has_index) RETURN_IF_ERROR(write_index(job));
  ASSIGN_OR_RETURN(BlockFile out, BlockFile::create(job.path, job.rooms.block, job.written,
                                                    job.plan.block_bytes()));
  RETURN_IF_ERROR(streamed_entry(job.plan.dataset().format)->write(job, out));
  return out.close();
}

uint64_t streamed_file_bytes(const DatasetPlan& plan, FileId file) {
  return streamed_entry(plan.dataset().format)->size_bytes(plan, file);
}

}  // namespace millrace::bench
