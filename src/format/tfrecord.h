// tfrecord: TensorFlow's file of records with checksums, each a tf.train.Example.
//
// A sample is a record with its frame (length, checksums), so that split() can hold the bytes
// against their checksum. Features become fields: a bytes feature is uint8, floats are float32,
// integers int64, with one axis. A bytes feature of several values becomes "name/0", "name/1", ...
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "format/format.h"

namespace millrace::format {

// The frame of a record: 8 bytes length, 4 its checksum, the payload, 4 the payload's checksum.
inline constexpr uint64_t kTfrecordHeadBytes = 12;
inline constexpr uint64_t kTfrecordTailBytes = 4;

// CRC32C turned and moved, so that a checksum over checksums is no fixed point.
uint32_t masked_crc32c(ByteView bytes);

// The payload of a framed record.
Result<ByteView> unframe_tfrecord(ByteView record);
std::string frame_tfrecord(ByteView payload);

// A tf.train.Example in the wire format of Protocol Buffers.
Status parse_example(ByteView payload, SampleFields& fields);
Result<std::string> make_example(std::span<const Field> fields);

std::unique_ptr<Format> make_tfrecord(const FormatOptions& options);

}  // namespace millrace::format
