// tfrecord: TensorFlow's file of records with checksums, each a tf.train.Example.
//
// A sample is a record with its frame (length, checksums), so that split() can verify the checksum.
// Features become fields with one axis: bytes become uint8, floats float32, integers int64. A bytes
// feature with several values becomes "name/0", "name/1", ...
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "format/format.h"

namespace millrace::format {

// The frame of a record: length (8 bytes), its checksum (4), payload, checksum of the payload (4).
inline constexpr uint64_t kTfrecordHeadBytes = 12;
inline constexpr uint64_t kTfrecordTailBytes = 4;

// CRC32C, rotated and plus a constant: the plain CRC of data followed by its CRC is a constant.
uint32_t masked_crc32c(ByteView bytes);
uint32_t mask_crc32c(uint32_t crc);

// The payload of a framed record.
Result<ByteView> unframe_tfrecord(ByteView record);
std::string frame_tfrecord(ByteView payload);

// The places of the records in a file, or in memory that looks like one.
Result<data::FileSamples> index_tfrecords(const io::Reader& file);

// A tf.train.Example in the wire format of Protocol Buffers.
Status parse_example(ByteView payload, SampleFields& fields);
Result<std::string> make_example(std::span<const Field> fields);

}  // namespace millrace::format
