#include "hook/path.h"

#include <cstring>

namespace millrace::hook {
namespace {

void append_component(std::string_view component, PathBuffer& out) {
  if (component.empty() || component == ".") return;
  if (component == "..") {
    while (out.size > 0 && out.text[out.size - 1] != '/') --out.size;
    if (out.size > 0) --out.size;
    return;
  }
  if (out.size + 1 + component.size() > kPathSizeMax) {
    component = component.substr(0, out.size + 1 < kPathSizeMax ? kPathSizeMax - out.size - 1 : 0);
    if (component.empty()) return;
  }
  out.text[out.size++] = '/';
  std::memcpy(out.text + out.size, component.data(), component.size());
  out.size += component.size();
}

void append_components(std::string_view path, PathBuffer& out) {
  size_t begin = 0;
  while (begin < path.size()) {
    const void* slash = std::memchr(path.data() + begin, '/', path.size() - begin);
    const size_t end = slash == nullptr
                           ? path.size()
                           : static_cast<size_t>(static_cast<const char*>(slash) - path.data());
    append_component(path.substr(begin, end - begin), out);
    begin = end + 1;
  }
}

}  // namespace

void normalise_path(std::string_view directory, std::string_view path, PathBuffer& out) {
  out.size = 0;
  if (path.empty() || path[0] != '/') append_components(directory, out);
  append_components(path, out);
  if (out.size == 0) out.text[out.size++] = '/';
}

}  // namespace millrace::hook
