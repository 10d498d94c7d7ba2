// image_seal: a comment in a JPEG or PNG file that names the sample and has a checksum of the file.
//
// Encoders of different versions make different bytes of the same pixels, so an image cannot be
// verified by generating it again. Image programs ignore the comment. It reads
// "millrace seed 0 train 17 crc32c 0123abcd"; the checksum is over all bytes but those of the
// comment's segment. docs/formats/dataset-manifest.md.
#pragma once

#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"

namespace millrace::bench {

// What an image needs in front of it so that seal_image() need not move it.
inline constexpr size_t kSealRoomBytes = 256;

// Adds the comment. `identity` is the middle of it: "seed 0 train 17". `room` is kSealRoomBytes and
// then a complete image. Returns the sealed image, which ends where `room` does.
Result<ByteView> seal_image(MutableByteView room, std::string_view identity);

// Fails if the comment is missing, names another sample, or the bytes have another checksum.
Status check_image_seal(ByteView image, std::string_view identity);

}  // namespace millrace::bench
