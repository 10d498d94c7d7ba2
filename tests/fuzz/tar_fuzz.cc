// Any bytes may be a tar file. They are read twice: unchanged, and with corrected checksums of all
// blocks, so that changed sizes and names are accepted.
#include "tests/fuzz/sample_format.h"

namespace {

void make_checksums_right(std::string& content) {
  for (size_t at = 0; at + 512 <= content.size(); at += 512) {
    content.replace(at + 148, 8, "        ");
    uint64_t sum = 0;
    for (const char c : content.substr(at, 512)) sum += static_cast<unsigned char>(c);
    content.replace(at + 148, 6, fmt::format("{:06o}", sum));
    content[at + 154] = '\0';
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string content(reinterpret_cast<const char*>(data), size);
  const auto tar = *millrace::format::open_format("tar");
  millrace::format::read_as(*tar, content);
  make_checksums_right(content);
  millrace::format::read_as(*tar, content);
  return 0;
}
