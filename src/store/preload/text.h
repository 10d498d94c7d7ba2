// Text: builds a text in a buffer, without a heap. It always ends with a zero; what does not fit is
// cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace::store {

class Text {
 public:
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

  Text& add(uint64_t number) {
    char digits[20];
    size_t begin = sizeof(digits);
    do {
      digits[--begin] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return add({digits + begin, sizeof(digits) - begin});
  }

  size_t size() const { return static_cast<size_t>(at_ - begin_); }

 private:
  char* begin_;
  char* at_;
  char* end_;
};

}  // namespace millrace::store
