// image_check: whether bytes are a whole JPEG or PNG image, without decoding it.
//
// What a cut or a hole in a file breaks is looked at: the markers of a JPEG up to its first scan
// and its end, the chunks of a PNG with their checksums and its end. A JPEG has no checksum, so
// changed bits of its scans are found only by decoding (reader.decode). Bytes behind the end are
// accepted, as image programs do.
#pragma once

#include "base/base.h"
#include "base/result.h"

namespace millrace::bench {

Status check_image(ByteView image);

}  // namespace millrace::bench
