// image_seal: a comment in a JPEG or PNG file that names the sample and has a checksum of the file.
//
// Encoders of different versions make different bytes of the same pixels, so an image cannot be
// verified by generating it again. Image programs ignore the comment. It reads
// "millrace seed 0 train 17 crc32c 0123abcd"; the checksum is over all bytes but those of the
// comment's segment. docs/formats/dataset-manifest.md.
//
// The segment is where libjpeg and libpng end the header that must come first, so nothing is
// searched for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"
#include "bench/workload/choices.h"

namespace millrace::bench {

// Where the segment is.
size_t seal_place(DatasetFormat format);

// The segment. `identity` is the middle of the comment: "seed 0 train 17".
std::string image_seal(DatasetFormat format, std::string_view identity, uint32_t checksum);

// Fails if the comment is missing, names another sample, or the bytes have another checksum.
Status check_image_seal(DatasetFormat format, ByteView image, std::string_view identity);

}  // namespace millrace::bench
