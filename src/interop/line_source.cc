#include "interop/line_source.h"

#include <fmt/core.h>

#include <cstring>

#include "base/io/input_file.h"

namespace millrace::interop {
namespace {

constexpr size_t kInputBytes = 1 << 20;
constexpr size_t kTextBytes = 4 << 20;

MutableByteView room_in(std::string& text, size_t from) {
  return std::as_writable_bytes(std::span(text.data() + from, text.size() - from));
}

}  // namespace

LineSource::LineSource(File file, std::unique_ptr<GzipReader> gzip)
    : file_(std::move(file)), gzip_(std::move(gzip)) {
  text_.resize(kTextBytes);
  if (gzip_ != nullptr) input_.resize(kInputBytes);
}

Result<LineSource> LineSource::open(const std::string& path) {
  ASSIGN_OR_RETURN(File file, open_input(path));
  // Judged by content, not by name: a .pfw may be compressed, and a .gz may not be.
  std::byte magic[2] = {};
  ASSIGN_OR_RETURN(const size_t length, file.read_at(0, magic).within(path));
  std::unique_ptr<GzipReader> gzip;
  if (length == 2 && magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b}) {
    ASSIGN_OR_RETURN(gzip, GzipReader::create().within(path));
  }
  return LineSource(std::move(file), std::move(gzip));
}

Result<std::string_view> LineSource::next() {
  // Move what follows the last returned newline to the front.
  std::memmove(text_.data(), text_.data() + returned_, text_size_ - returned_);
  text_size_ -= returned_;
  returned_ = 0;
  while (!ended_) {
    const size_t before = text_size_;
    if (text_size_ == text_.size()) {
      if (text_.size() >= kLineMaxBytes) {
        return fail(Errc::kCorrupt,
                    "the line at byte {} of the text is longer than {} MiB; this is "
                    "not a file with one event per line",
                    text_bytes_, kLineMaxBytes >> 20);
      }
      text_.resize(text_.size() * 2);
    }
    RETURN_IF_ERROR(fill());
    const std::string_view added(text_.data() + before, text_size_ - before);
    const size_t newline = added.rfind('\n');
    // Small pieces are collected, so that a run of lines is worth the overhead.
    if (newline == std::string_view::npos || (text_size_ < text_.size() / 2 && !ended_)) continue;
    returned_ = before + newline + 1;
    break;
  }
  if (ended_ && returned_ == 0) returned_ = text_size_;
  text_bytes_ += returned_;
  return std::string_view(text_.data(), returned_);
}

Status LineSource::fill() { return gzip_ == nullptr ? fill_plain() : fill_gzip(); }

Status LineSource::fill_plain() {
  ASSIGN_OR_RETURN(const size_t length, file_.read_at(file_at_, room_in(text_, text_size_)));
  file_at_ += length;
  text_size_ += length;
  ended_ = length == 0;
  return {};
}

Status LineSource::fill_gzip() {
  if (input_at_ == input_size_) {
    ASSIGN_OR_RETURN(input_size_, file_.read_at(file_at_, room_in(input_, 0)));
    file_at_ += input_size_;
    input_at_ = 0;
    if (input_size_ == 0) {
      ended_ = true;
      if (!gzip_->between_members()) {
        problem_ = fmt::format(
            "the compressed data is cut off at byte {}; everything before it was read", file_at_);
      }
      return {};
    }
  }
  const ByteView input = bytes_of({input_.data() + input_at_, input_size_ - input_at_});
  const auto step = gzip_->inflate(input, room_in(text_, text_size_));
  if (!step.ok()) {
    ended_ = true;
    problem_ = fmt::format("the compressed data near byte {} is {}; everything before it was read",
                           file_at_ - (input_size_ - input_at_), step.error().message());
    return {};
  }
  input_at_ += step->taken;
  text_size_ += step->made;
  return {};
}

}  // namespace millrace::interop
