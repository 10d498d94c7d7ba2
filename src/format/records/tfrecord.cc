#include "format/records/tfrecord.h"

#include <cstring>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "format/appender.h"
#include "format/formats.h"
#include "format/window.h"

namespace millrace::format {
namespace {

// The length in the head of a record.
Result<uint64_t> payload_bytes(ByteView head, uint64_t offset_bytes) {
  ByteReader reader(head);
  ASSIGN_OR_RETURN(const uint64_t length, reader.read<uint64_t>());
  ASSIGN_OR_RETURN(const uint32_t said, reader.read<uint32_t>());
  const uint32_t found = masked_crc32c(head.first(sizeof(uint64_t)));
  if (said == found) return length;
  if (head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b}) {
    return fail(Errc::kUnsupported,
                "the file is compressed with gzip: open it with the format tfrecord_gzip, or "
                "decompress it");
  }
  return fail(Errc::kCorrupt,
              "no record begins at byte {}: its length {} has the checksum {:08x}, expected {:08x}",
              offset_bytes, length, found, said);
}

class TfrecordWriter final : public SampleWriter {
 public:
  explicit TfrecordWriter(std::unique_ptr<io::Writer> writer) : out_(std::move(writer)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    static_cast<void>(key);
    ASSIGN_OR_RETURN(const std::string example, make_example(fields));
    return out_.append(frame_tfrecord(bytes_of(example)));
  }

  Status finish() override { return out_.close(); }

 private:
  Appender out_;
};

class Tfrecord final : public Format {
 public:
  std::string_view name() const override { return "tfrecord"; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const auto reader, engine.open(path));
    return index_tfrecords(*reader);
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    ASSIGN_OR_RETURN(const ByteView payload, unframe_tfrecord(sample));
    return parse_example(payload, fields);
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    return std::unique_ptr<SampleWriter>(new TfrecordWriter(std::move(writer)));
  }
};

}  // namespace

uint32_t masked_crc32c(ByteView bytes) { return mask_crc32c(crc32c(bytes)); }

uint32_t mask_crc32c(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

Result<data::FileSamples> index_tfrecords(const io::Reader& file) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file.size_bytes());
  Window window(file, file_bytes);
  data::FileSamples samples{.kind = data::FileSamples::Kind::kListed,
                            .stamp = {.size_bytes = file_bytes}};
  for (uint64_t at = 0; at < file_bytes;) {
    ASSIGN_OR_RETURN(const ByteView head, window.at(at, kTfrecordHeadBytes));
    ASSIGN_OR_RETURN(const uint64_t length, payload_bytes(head, at));
    const uint64_t left = file_bytes - at - kTfrecordHeadBytes;
    if (length > left || left - length < kTfrecordTailBytes) {
      return fail(Errc::kCorrupt, "record at byte {} claims {} bytes, but the file ends at {}", at,
                  length, file_bytes);
    }
    const uint64_t size = kTfrecordHeadBytes + length + kTfrecordTailBytes;
    samples.spans.push_back({.offset_bytes = at, .size_bytes = size});
    at += size;
  }
  return samples;
}

Result<ByteView> unframe_tfrecord(ByteView record) {
  if (record.size() < kTfrecordHeadBytes + kTfrecordTailBytes) {
    return fail(Errc::kCorrupt, "a record has at least 16 bytes, but this one has {}",
                record.size());
  }
  ASSIGN_OR_RETURN(const uint64_t length, payload_bytes(record.first(kTfrecordHeadBytes), 0));
  if (length != record.size() - kTfrecordHeadBytes - kTfrecordTailBytes) {
    return fail(Errc::kCorrupt, "the record claims {} bytes, but its frame has {}", length,
                record.size() - kTfrecordHeadBytes - kTfrecordTailBytes);
  }
  const ByteView payload = record.subspan(kTfrecordHeadBytes, static_cast<size_t>(length));
  uint32_t said = 0;
  std::memcpy(&said, payload.data() + payload.size(), sizeof(said));
  const uint32_t found = masked_crc32c(payload);
  if (said != found) {
    return fail(Errc::kCorrupt, "the record's {} bytes have the checksum {:08x}, expected {:08x}",
                length, found, said);
  }
  return payload;
}

std::string frame_tfrecord(ByteView payload) {
  const uint64_t length = payload.size();
  const ByteView head = std::as_bytes(std::span(&length, 1));
  const uint32_t head_crc = masked_crc32c(head);
  const uint32_t payload_crc = masked_crc32c(payload);
  std::string record(text_of(head));
  record += text_of(std::as_bytes(std::span(&head_crc, 1)));
  record += text_of(payload);
  record += text_of(std::as_bytes(std::span(&payload_crc, 1)));
  return record;
}

std::unique_ptr<Format> make_tfrecord(const FormatOptions& options) {
  static_cast<void>(options);
  return std::make_unique<Tfrecord>();
}

}  // namespace millrace::format
