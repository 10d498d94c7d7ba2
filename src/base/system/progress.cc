#include "base/system/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/system/terminal.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kDrawInterval = 100ms;
constexpr std::string_view kEraseLine = "\r\x1b[K";

void put(int fd, std::string_view text) {
  // Ignore errors: a closed terminal is no reason to stop the work.
  static_cast<void>(!write(fd, text.data(), text.size()));
}

}  // namespace

Progress::Progress(Options options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : system_clock()),
      shown_(inspect_terminal(options_.fd).is_terminal),
      start_(clock_.monotonic()),
      next_draw_(start_ + kDrawInterval) {}

Progress::~Progress() {
  if (shown_) put(options_.fd, kEraseLine);
}

void Progress::add(uint64_t amount) {
  done_.fetch_add(amount, std::memory_order_relaxed);
  if (shown_) draw_if_due();
}

void Progress::set_activity(std::string activity) {
  const MutexLock lock(mutex_);
  activity_ = std::move(activity);
  if (shown_) draw(clock_.monotonic());
}

void Progress::draw_if_due() {
  const auto now = clock_.monotonic();
  auto due = next_draw_.load(std::memory_order_relaxed);
  if (now < due || !next_draw_.compare_exchange_strong(due, now + kDrawInterval)) return;
  const MutexLock lock(mutex_);
  draw(now);
}

void Progress::draw(std::chrono::nanoseconds now) {
  const size_t columns = inspect_terminal(options_.fd).columns;
  // One column less, because some terminals wrap at the last.
  put(options_.fd, std::string(kEraseLine) + shorten(line(now), columns - 1));
}

std::string Progress::line(std::chrono::nanoseconds now) const {
  const auto done = static_cast<double>(done_.load(std::memory_order_relaxed));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string text = options_.label;
  if (!activity_.empty()) text += ": " + activity_;
  if (options_.total > 0) {
    const double share = std::min(1.0, done / static_cast<double>(options_.total));
    text += fmt::format("  [{}] {:3.0f} %", bar(share, 20, false), share * 100);
  }
  if (done > 0) {
    text += options_.counts_bytes ? "  " + format_bandwidth(rate)
                                  : fmt::format("  {}/s", format_count(rate));
  }
  if (options_.total > 0 && rate > 0 && done < static_cast<double>(options_.total)) {
    const double left = (static_cast<double>(options_.total) - done) / rate;
    if (left < 1e6) {
      const auto whole = std::chrono::seconds(std::lround(left));
      text += "  " + format_duration(whole) + " left";
    }
  }
  return text;
}

}  // namespace millrace
