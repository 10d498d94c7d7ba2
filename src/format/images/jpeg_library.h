// Shared by jpeg.cc and jpeg_writer.cc, and by no other file: libjpeg, with its errors as values.
//
// libjpeg leaves a failed call with longjmp, which always lands in guarded(). The frames between
// guarded() and libjpeg must not have destructors.
#pragma once

// clang-format off: each of these needs those before it
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#ifndef LIBJPEG_TURBO_VERSION
#error \
    "this libjpeg cannot decode parts of an image; install libjpeg-turbo, or build with -DMILLRACE_JPEG=OFF"
#endif

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <string>

#include "base/result.h"

namespace millrace::format {

struct JpegErrors {
  jpeg_error_mgr base;  // must be first: libjpeg passes a pointer to it
  std::jmp_buf landing;
  bool accept_damage = false;
  char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] inline void leave(j_common_ptr handle) {
  auto* errors = reinterpret_cast<JpegErrors*>(handle->err);
  handle->err->format_message(handle, errors->message);
  std::longjmp(errors->landing, 1);
}

// Warnings after which libjpeg invents pixels. Others, such as stray bytes between markers, do not
// affect the image.
inline bool is_damage(int message) {
  switch (message) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

inline void on_message(j_common_ptr handle, int level) {
  const auto* errors = reinterpret_cast<const JpegErrors*>(handle->err);
  if (level < 0 && !errors->accept_damage && is_damage(handle->err->msg_code)) leave(handle);
}

inline void on_output(j_common_ptr) {}  // libraries do not print

inline jpeg_error_mgr* prepare(JpegErrors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = &leave;
  errors.base.emit_message = &on_message;
  errors.base.output_message = &on_output;
  return &errors.base;
}

inline Error jpeg_error(const JpegErrors& errors) {
  std::string text = errors.message;
  // Lower case, except for "JPEG datastream contains no image".
  if (!text.empty() && !text.starts_with("JPEG")) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  if (errors.base.msg_code == JERR_OUT_OF_MEMORY) {
    return fail(Errc::kExhausted, "JPEG: {}", text);
  }
  return fail(Errc::kCorrupt, "JPEG: {}", text);
}

// Runs `work`, which calls libjpeg and must not have objects with destructors alive meanwhile.
template <typename Work>
Status guarded(JpegErrors& errors, const Work& work) {
  if (setjmp(errors.landing) != 0) return jpeg_error(errors);
  work();
  return {};
}

}  // namespace millrace::format
