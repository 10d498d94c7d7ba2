// Any path in any catalogue, as the store's client resolves it: the walk ends, stays inside of the
// bytes, and finds entries that exist. The input is a path, a zero, and a catalogue.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "store/preload/resolve.h"

namespace {

using namespace millrace;

void use(const wire::CatalogueView& catalogue, std::string_view path, store::Last last) {
  const auto walk = std::make_unique<store::Walk>();
  for (const uint32_t base : {wire::kRootEntry, catalogue.entry_count() - 1}) {
    const store::Place place = store::walk_path({catalogue, "/data/set"}, base, path, last, *walk);
    if (place.where == store::Where::kElsewhere && place.path[0] != '/') std::abort();
    if (place.where == store::Where::kFailed && place.error == 0) std::abort();
    if (place.where != store::Where::kInside) continue;
    if (place.entry >= catalogue.entry_count()) std::abort();
    char text[store::kPathBytes];
    if (store::write_path(catalogue, place.entry, text, sizeof(text)) > sizeof(text)) std::abort();
  }
  // The quick way finds the same, or leaves it to the walk.
  const uint32_t plain = store::find_plain(catalogue, path, last);
  if (plain != wire::kNoEntry && plain >= catalogue.entry_count()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const size_t zero = bytes.find('\0');
  if (zero == std::string::npos) return 0;
  const std::string catalogue_bytes = bytes.substr(zero + 1);
  wire::CatalogueView catalogue;
  if (catalogue.open(catalogue_bytes.data(), catalogue_bytes.size()) != nullptr) return 0;
  const std::string_view path(bytes.data(), zero);
  use(catalogue, path, store::Last::kFollow);
  use(catalogue, path, store::Last::kKeepLink);
  return 0;
}
