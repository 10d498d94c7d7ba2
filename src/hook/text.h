// Text: builds a text in a buffer, without a heap. It always ends with a zero; what does not fit is
// cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace::hook {

class Text {
 public:
  template <size_t kSize>
  explicit Text(char (&buffer)[kSize]) : Text(buffer, kSize) {}
  Text(char* buffer, size_t room) : begin_(buffer), at_(buffer), end_(buffer + room - 1) {
    *at_ = '\0';
  }

  Text& add(std::string_view text) {
    const auto room = static_cast<size_t>(end_ - at_);
    const size_t size = text.size() < room ? text.size() : room;
    std::memcpy(at_, text.data(), size);
    at_ += size;
    *at_ = '\0';
    return *this;
  }

  Text& add(uint64_t number, unsigned base = 10) {
    char digits[20];
    size_t begin = sizeof(digits);
    do {
      digits[--begin] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    return add({digits + begin, sizeof(digits) - begin});
  }

  // Without the zero.
  size_t size() const { return static_cast<size_t>(at_ - begin_); }

 private:
  char* begin_;
  char* at_;
  char* end_;
};

}  // namespace millrace::hook
