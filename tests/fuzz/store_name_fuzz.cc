// What another node says about a name that a program created, and the target of a link in the tree:
// any bytes are refused, or are read and written back alike, and no name leaves the root.
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "store/announcer.h"
#include "wire/store_name.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const ByteView all(reinterpret_cast<const std::byte*>(data), size);
  const std::string_view text = text_of(all);
  wire::RemoteName name;
  if (wire::parse_remote_target(text, name) && !wire::is_shown_target(text)) std::abort();
  const auto news = store::parse_name_question(all);
  if (!news.ok()) return 0;
  // The second text is a path, or the target of a symbolic link.
  const bool is_link = news->change == wire::PeerNameChange::kPut && S_ISLNK(news->mode);
  if (news->path.empty() || !store::is_safe_path(news->path)) std::abort();
  if (is_link ? news->to.empty() || wire::is_shown_target(news->to)
              : !store::is_safe_path(news->to)) {
    std::abort();
  }
  if (store::name_question(*news) != text) std::abort();
  return 0;
}
