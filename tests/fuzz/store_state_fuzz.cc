// The files of a node that `status` and clients read: any bytes are refused, or give paths that
// end. The first byte chooses the file.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "store/service/node_folder.h"
#include "store/service/service.h"

namespace {

using namespace millrace;

const std::filesystem::path& node() {
  static const TemporaryDirectory directory = *TemporaryDirectory::create("/tmp", "mr-");
  return directory.path();
}

void write(const char* name, std::string_view bytes) {
  std::ofstream(node() / name, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    write("service.json", bytes);
    static_cast<void>(store::read_service_settings(node()));
    return 0;
  }
  // Inputs are shorter than a state: they are its beginning, then that of `origin` and the rest.
  std::string state(sizeof(wire::StoreState), data[0] % 4 == 1 ? '\0' : '\xff');
  const size_t half = bytes.size() / 2;
  std::memcpy(state.data(), bytes.data(), std::min(half, offsetof(wire::StoreState, origin)));
  const std::string_view rest = bytes.substr(half);
  std::memcpy(state.data() + offsetof(wire::StoreState, origin), rest.data(),
              std::min(rest.size(), sizeof(state) - offsetof(wire::StoreState, origin)));
  write("state", state);
  const auto read = store::read_node(node());
  if (!read.ok()) return 0;
  if (std::strlen(read->state.root) >= wire::kStorePathBytes) std::abort();
  if (std::strlen(read->state.origin) >= wire::kStorePathBytes) std::abort();
  if (read->state.root[0] != '/' || read->is_running) std::abort();
  return 0;
}
