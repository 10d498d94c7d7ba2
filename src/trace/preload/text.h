// Texts in buffers of a fixed size.
#pragma once

#include "hook/text.h"

namespace millrace::trace {

using hook::Text;

// The path of one of our own files: a directory of up to 4095 bytes, and a file name.
struct PathText {
  char text[4200];
};

template <size_t kSize>
void copy_cut(char (&to)[kSize], std::string_view from) {
  Text(to).add(from);
}

}  // namespace millrace::trace
