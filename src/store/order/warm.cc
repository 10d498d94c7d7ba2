#include "store/order/warm.h"

#include <algorithm>
#include <cerrno>

#include "hook/glob.h"

namespace millrace::store {
namespace {

constexpr size_t kAskedMax = 64;  // at a time
constexpr std::chrono::seconds kReplyPatience{60};

bool matches_one(const std::vector<std::string>& globs, const std::string& path) {
  return std::ranges::any_of(
      globs, [&](const std::string& glob) { return hook::glob_matches(glob, path); });
}

}  // namespace

Result<WarmReport> warm_node(const Catalogue& catalogue, const ServiceClient& client,
                             const WarmOptions& options) {
  WarmReport report;
  size_t asked = 0;
  const auto take_reply = [&]() -> Status {
    ASSIGN_OR_RETURN(const auto reply, client.next(kReplyPatience));
    --asked;
    if (reply.id >= catalogue.entry_count()) {
      return fail(Errc::kCorrupt, "the store's service answered a question that was not asked");
    }
    if (reply.os_error == ENOSPC) {
      report.is_full = true;
    } else if (reply.os_error != 0) {
      ++report.failed_count;
    } else {
      const uint64_t size_bytes = catalogue.entry(static_cast<uint32_t>(reply.id)).size_bytes;
      ++report.file_count;
      report.size_bytes += size_bytes;
      if (options.on_warmed) options.on_warmed(size_bytes);
    }
    return {};
  };
  for (uint32_t i = 0; i < catalogue.entry_count() && !report.is_full; ++i) {
    if (catalogue.entry(i).kind != wire::EntryKind::kFile) continue;
    if (!options.globs.empty() && !matches_one(options.globs, catalogue.path(i))) continue;
    while (asked >= kAskedMax) RETURN_IF_ERROR(take_reply());
    RETURN_IF_ERROR(client.ask(i, i, options.kind));
    ++asked;
  }
  while (asked > 0) RETURN_IF_ERROR(take_reply());
  return report;
}

}  // namespace millrace::store
