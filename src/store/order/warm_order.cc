#include "store/order/warm_order.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "store/order/order_feed.h"
#include "store/order/read_progress.h"
#include "store/service/node_files.h"
#include "store/service/node_folder.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

constexpr std::chrono::milliseconds kOrderLookEvery{50};
constexpr std::chrono::seconds kAliveEvery{1};
constexpr std::chrono::seconds kAnnouncePatience{60};
constexpr size_t kOrderPieceBytes = size_t{64} << 10;
constexpr size_t kOrderLineBytes = size_t{64} << 10;  // of a path; PATH_MAX is 4 KiB

// Long enough for a worker that decodes a batch, file after file, while others are further.
constexpr std::chrono::seconds kPassedOverPatience{5};

// As many reads as workers may be apart, but not an epoch.
uint64_t window_of(uint64_t file_count) { return std::clamp<uint64_t>(file_count / 4, 16, 4096); }

// Reads lines from a file or pipe; stops waiting when asked to stop.
class OrderLines {
 public:
  OrderLines(const File& file, const std::atomic<bool>& is_stopping)
      : file_(file), is_stopping_(is_stopping) {}

  // nullopt: the end, or an error, or it was stopped.
  std::optional<std::string> next() {
    for (;;) {
      const size_t end = text_.find('\n', at_);
      if (end != text_.npos) {
        ++count_;
        const size_t begin = std::exchange(at_, end + 1);
        return text_.substr(begin, end - begin);
      }
      if (has_ended_) break;
      text_.erase(0, std::exchange(at_, 0));
      read_more();
    }
    if (at_ == text_.size() || is_stopping_ || !problem_.ok()) return std::nullopt;
    ++count_;
    return text_.substr(std::exchange(at_, text_.size()));
  }

  uint64_t count() const { return count_; }
  const Status& problem() const { return problem_; }  // once next() has returned nullopt

 private:
  void read_more() {
    if (text_.size() > kOrderLineBytes) {
      end_with(fail(Errc::kInvalidArgument,
                    "line {} is longer than {} bytes: this is not a list of paths", count_ + 1,
                    kOrderLineBytes));
      return;
    }
    while (!is_readable_within(file_.fd(), kOrderLookEvery)) {
      if (is_stopping_) {
        has_ended_ = true;
        return;
      }
    }
    const size_t before = text_.size();
    text_.resize(before + kOrderPieceBytes);
    const ssize_t size = ::read(file_.fd(), text_.data() + before, kOrderPieceBytes);
    text_.resize(before + static_cast<size_t>(std::max<ssize_t>(size, 0)));
    if (size < 0 && errno != EINTR) end_with(fail_os(errno, "cannot read it"));
    has_ended_ = has_ended_ || is_stopping_ || size == 0;
  }

  void end_with(Error problem) {
    problem_ = std::move(problem);
    has_ended_ = true;
  }

  const File& file_;
  const std::atomic<bool>& is_stopping_;
  std::string text_;
  size_t at_ = 0;
  uint64_t count_ = 0;
  bool has_ended_ = false;
  Status problem_;
};

// The files of the tree that are closed by programs that read them.
class CloseWatch {
 public:
  explicit CloseWatch(const NodeFiles& files)
      : files_(files),
        tree_(files.node() / wire::kStoreTreeDirectory),
        inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

  // Thread-safe.
  Status watch(uint32_t directory) {
    const MutexLock lock(mutex_);
    if (!watched_.insert(directory).second) return {};
    const std::string path = files_.path(directory);
    if (!inotify_.is_open()) {
      return fail(Errc::kExhausted,
                  "cannot watch files: fs.inotify.max_user_instances or the limit on open files is "
                  "reached");
    }
    // Not files that have no name any more: the service opens those that it removes.
    const int number = ::inotify_add_watch(inotify_.fd(), (tree_ / path).c_str(),
                                           IN_CLOSE_NOWRITE | IN_EXCL_UNLINK | IN_ONLYDIR);
    if (number >= 0) {
      paths_[number] = path;
      return {};
    }
    return fail_os(errno, errno == ENOSPC
                              ? "cannot watch it: fs.inotify.max_user_watches is reached"
                              : "cannot watch it")
        .within(printable((tree_ / path).string()));
  }

  std::vector<uint32_t> take(std::chrono::milliseconds patience) {
    std::vector<uint32_t> entries;
    alignas(inotify_event) char buffer[kOrderPieceBytes];
    if (!is_readable_within(inotify_.fd(), patience)) return entries;
    const ssize_t size = ::read(inotify_.fd(), buffer, sizeof(buffer));
    for (ssize_t at = 0; at < size;) {
      inotify_event head{};
      std::memcpy(&head, buffer + at, sizeof(head));
      const char* const name = buffer + at + sizeof(head);
      at += static_cast<ssize_t>(sizeof(head) + head.len);
      if ((head.mask & IN_CLOSE_NOWRITE) == 0 || head.len == 0) continue;
      const uint32_t entry = files_.catalogue().find(path_of(head.wd, name));
      if (entry != wire::kNoEntry) entries.push_back(entry);
    }
    return entries;
  }

 private:
  std::string path_of(int number, std::string_view name) {
    const MutexLock lock(mutex_);
    const std::string& directory = paths_[number];
    return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
  }

  const NodeFiles& files_;
  const std::filesystem::path tree_;
  const File inotify_;
  Mutex mutex_;
  std::set<uint32_t> watched_ GUARDED_BY(mutex_);
  std::map<int, std::string> paths_ GUARDED_BY(mutex_);
};

class OrderWarming {
 public:
  OrderWarming(const NodeFiles& files, const File& lines, const WarmOrderOptions& options)
      : files_(files),
        options_(options),
        lines_(lines, is_stopping_),
        watch_(files),
        progress_(window_of(files.catalogue().header().file_count), kPassedOverPatience) {}

  Result<WarmOrderReport> run() {
    auto feed = OrderFeed::start(files_.node(), kAnnouncePatience, [this] { return next(); });
    if (!feed.ok()) return std::move(feed).error();
    Status status = follow(**feed);
    is_stopping_ = true;
    feed->reset();  // its thread uses this
    RETURN_IF_ERROR(status);
    const MutexLock lock(mutex_);
    report_.read_count = progress_.expected_count();
    report_.done_count = progress_.done_count();
    return report_;
  }

 private:
  // On the thread of the feed.
  std::optional<uint32_t> next() {
    while (const auto line = lines_.next()) {
      if (line->empty()) continue;
      const uint32_t entry = find(*line);
      if (entry == wire::kNoEntry) {
        ++report_.unknown_count;
        if (options_.on_unknown) options_.on_unknown(lines_.count(), *line);
        continue;
      }
      Status watched = watch_.watch(files_.catalogue().entry(entry).parent);
      const MutexLock lock(mutex_);
      if (!watched.ok()) {
        problem_ = std::move(watched);
        break;
      }
      progress_.expect(entry);
      return entry;
    }
    const MutexLock lock(mutex_);
    if (problem_.ok() && !lines_.problem().ok()) problem_ = lines_.problem().error();
    is_all_said_ = true;
    return std::nullopt;
  }

  uint32_t find(const std::string& path) const {
    const auto inside = path.starts_with('/') ? files_.below_root(path) : std::optional(path);
    const uint32_t found = inside ? files_.find(*inside) : wire::kNoEntry;
    const bool is_file =
        found != wire::kNoEntry && files_.catalogue().entry(found).kind == wire::EntryKind::kFile;
    return is_file ? found : wire::kNoEntry;
  }

  Status follow(OrderFeed& feed) {
    uint64_t told = 0;
    auto alive_at = monotonic_now();
    for (;;) {
      const bool is_all_said = is_all_said_;
      const std::vector<uint32_t> closed = watch_.take(kOrderLookEvery);
      const auto now = monotonic_now();
      {
        const MutexLock lock(mutex_);
        RETURN_IF_ERROR(problem_);
        for (const uint32_t entry : closed) progress_.closed(entry, now);
        progress_.give_up_until(now);
        const uint64_t done = progress_.done_count();
        feed.finished(done - std::exchange(told, done));
        if (is_all_said && told == progress_.expected_count()) return {};
      }
      if (now - alive_at < kAliveEvery) continue;
      alive_at = now;
      const auto status = read_node(files_.node());
      report_.has_ended = !status.ok() || !status->is_running;
      if (report_.has_ended) return {};
    }
  }

  const NodeFiles& files_;
  const WarmOrderOptions& options_;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<bool> is_all_said_ = false;
  OrderLines lines_;
  CloseWatch watch_;

  Mutex mutex_;
  ReadProgress progress_ GUARDED_BY(mutex_);
  Status problem_ GUARDED_BY(mutex_);
  WarmOrderReport report_;
};

}  // namespace

Result<WarmOrderReport> warm_in_order(const std::filesystem::path& node, const File& lines,
                                      const WarmOrderOptions& options) {
  ASSIGN_OR_RETURN(const auto files, NodeFiles::open({.node = node, .on_fallback = {}}));
  return OrderWarming(*files, lines, options).run();
}

}  // namespace millrace::store
