// TextBuilder: builds short texts in a buffer, without a heap. Text that does not fit is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace::trace {

class TextBuilder {
 public:
  template <size_t kSize>
  explicit TextBuilder(char (&buffer)[kSize]) : TextBuilder(buffer, kSize) {}
  TextBuilder(char* buffer, size_t size) : begin_(buffer), at_(buffer), end_(buffer + size) {}

  TextBuilder& add(std::string_view text) {
    const auto room = static_cast<size_t>(end_ - at_) - 1;
    const size_t size = text.size() < room ? text.size() : room;
    std::memcpy(at_, text.data(), size);
    at_ += size;
    return *this;
  }

  TextBuilder& add(uint64_t number, unsigned base = 10) {
    char digits[24];
    size_t count = 0;
    do {
      digits[count++] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    while (count > 0) add(std::string_view(&digits[--count], 1));
    return *this;
  }

  // Terminates the text and returns its length.
  size_t end() {
    *at_ = '\0';
    return static_cast<size_t>(at_ - begin_);
  }

 private:
  char* begin_;
  char* at_;
  char* end_;
};

// The path of one of our own files: a directory of up to 4095 bytes, and a file name.
struct PathText {
  char text[4200];
};

template <size_t kSize>
void copy_cut(char (&to)[kSize], std::string_view from) {
  TextBuilder(to).add(from).end();
}

}  // namespace millrace::trace
