// file_pieces: reads a whole file from start to end in pieces of 1 MiB, for formats that look at
// every byte to find their samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"
#include "data/dataset.h"
#include "io/engine.h"

namespace millrace::format {

// Calls add(piece) for each piece until one fails. Fails if the file is shorter than it was.
template <typename Add>
Status for_each_piece(const io::Reader& reader, uint64_t file_bytes, Add add) {
  constexpr uint64_t kPieceBytes = 1024 * 1024;
  std::string piece;
  for (uint64_t at = 0; at < file_bytes; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, file_bytes - at)));
    ASSIGN_OR_RETURN(const size_t there,
                     reader.read_at(at, std::as_writable_bytes(std::span(piece))));
    if (there < piece.size()) {
      return fail(Errc::kIo, "the file shrank to {} bytes while it was indexed", at + there);
    }
    RETURN_IF_ERROR(add(std::string_view(piece)));
  }
  return {};
}

// REQUIRES: the span is in the file.
inline Result<std::string> read_text_at(const io::Reader& reader, data::Span span) {
  std::string text(static_cast<size_t>(span.size_bytes), '\0');
  ASSIGN_OR_RETURN(const size_t there,
                   reader.read_at(span.offset_bytes, std::as_writable_bytes(std::span(text))));
  text.resize(there);
  return text;
}

}  // namespace millrace::format
