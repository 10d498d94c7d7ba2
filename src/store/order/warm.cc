#include "store/order/warm.h"

#include <algorithm>
#include <cerrno>

#include "hook/glob.h"

namespace millrace::store {
namespace {

constexpr size_t kAskedMax = 64;  // at a time
constexpr std::chrono::seconds kReplyPatience{60};

class Warming {
 public:
  Warming(const Catalogue& catalogue, const ServiceClient& client, const WarmOptions& options)
      : catalogue_(catalogue), client_(client), options_(options) {}

  Result<WarmReport> run() {
    for (uint32_t i = 0; i < catalogue_.entry_count() && !report_.is_full; ++i) {
      if (catalogue_.entry(i).kind != wire::EntryKind::kFile || !is_wanted(i)) continue;
      while (asked_ >= kAskedMax) RETURN_IF_ERROR(take_reply());
      RETURN_IF_ERROR(client_.ask(i, i, options_.kind));
      ++asked_;
    }
    while (asked_ > 0) RETURN_IF_ERROR(take_reply());
    return report_;
  }

 private:
  bool is_wanted(uint32_t index) const {
    if (options_.globs.empty()) return true;
    const std::string path = catalogue_.path(index);
    return std::any_of(options_.globs.begin(), options_.globs.end(),
                       [&](const std::string& glob) { return hook::glob_matches(glob, path); });
  }

  Status take_reply() {
    ASSIGN_OR_RETURN(const auto reply, client_.next(kReplyPatience));
    --asked_;
    if (reply.id >= catalogue_.entry_count()) {
      return fail(Errc::kCorrupt, "the store's service answered a question that was not asked");
    }
    if (reply.os_error == ENOSPC) {
      report_.is_full = true;
    } else if (reply.os_error != 0) {
      ++report_.failed_count;
    } else {
      const uint64_t size_bytes = catalogue_.entry(static_cast<uint32_t>(reply.id)).size_bytes;
      ++report_.file_count;
      report_.size_bytes += size_bytes;
      if (options_.on_warmed) options_.on_warmed(size_bytes);
    }
    return {};
  }

  const Catalogue& catalogue_;
  const ServiceClient& client_;
  const WarmOptions& options_;
  WarmReport report_;
  size_t asked_ = 0;
};

}  // namespace

Result<WarmReport> warm_node(const Catalogue& catalogue, const ServiceClient& client,
                             const WarmOptions& options) {
  return Warming(catalogue, client, options).run();
}

}  // namespace millrace::store
