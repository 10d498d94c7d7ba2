#include "interop/kineto.h"

#include <algorithm>

namespace millrace::interop {
namespace {

constexpr uint64_t kTimeMax = uint64_t{1}
                              << 62;  // fits a signed wall time, with room for a duration

bool is_json_space(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r';
}

// A position in JSON text. After a failure, every call fails.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  bool failed() const { return failed_; }
  size_t at() const { return at_; }

  // The next character that is not a space; 0 at the end.
  char peek() {
    while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char letter) {
    if (failed_ || peek() != letter) return false;
    ++at_;
    return true;
  }

  // Takes "key": and stands before the value. False at the end of the object, which it takes.
  // `is_first` is for the caller to set to true before the first call.
  bool next_member(bool& is_first, PfwValue& key) {
    if (take('}')) return false;
    if (!is_first && !take(',')) return fail();
    is_first = false;
    if (peek() != '"') return fail();
    key = take_value();
    return take(':') || fail();
  }

  // The same for the items of a list.
  bool next_item(bool& is_first) {
    if (take(']')) return false;
    if (!is_first && !take(',')) return fail();
    is_first = false;
    return !failed_;
  }

  // Any value. An object or a list is returned as text.
  PfwValue take_value() {
    const char first = peek();
    if (failed_ || first == '\0') return fail(), PfwValue{};
    if (first == '"') return take_text();
    const size_t begin = at_;
    if (first == '{' || first == '[') {
      skip_nested();
      return {.raw = text_.substr(begin, at_ - begin), .kind = PfwValue::Kind::kNested};
    }
    while (at_ < text_.size() && !is_json_space(text_[at_]) && text_[at_] != ',' &&
           text_[at_] != '}' && text_[at_] != ']') {
      ++at_;
    }
    if (at_ == begin) fail();
    const bool is_number = first == '-' || (first >= '0' && first <= '9');
    return {.raw = text_.substr(begin, at_ - begin),
            .kind = is_number ? PfwValue::Kind::kNumber : PfwValue::Kind::kWord};
  }

 private:
  bool fail() {
    failed_ = true;
    return false;
  }

  PfwValue take_text() {
    const size_t begin = ++at_;
    bool escaped = false;
    while (at_ < text_.size() && text_[at_] != '"') {
      escaped = escaped || text_[at_] == '\\';
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    if (at_ >= text_.size()) {
      at_ = text_.size();
      fail();
      return {};
    }
    return {.raw = text_.substr(begin, at_++ - begin),
            .kind = PfwValue::Kind::kText,
            .escaped = escaped};
  }

  // Counts brackets of both kinds together, without recursion: the text may be hostile.
  void skip_nested() {
    size_t depth = 0;
    do {
      const char letter = peek();
      if (letter == '"') {
        take_text();
        if (failed_) return;
        continue;
      }
      if (letter == '\0') {
        fail();
        return;
      }
      if (letter == '{' || letter == '[') ++depth;
      if (letter == '}' || letter == ']') --depth;
      ++at_;
    } while (depth > 0);
  }

  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
};

// Calls `visit(key, value)` for each member of an object in text. False if it is not an object.
template <typename Visit>
bool visit_members(std::string_view object, const Visit& visit) {
  JsonCursor cursor(object);
  if (!cursor.take('{')) return false;
  PfwValue key;
  for (bool is_first = true; cursor.next_member(is_first, key);) {
    const PfwValue value = cursor.take_value();
    if (cursor.failed()) return false;
    visit(key.raw, value);
  }
  return !cursor.failed();
}

class KinetoReader {
 public:
  // One object of "traceEvents".
  void take_event(std::string_view object) {
    KinetoEvent event;
    PfwValue category, phase, pid, time, duration, arguments;
    const bool is_object = visit_members(object, [&](std::string_view key, const PfwValue& value) {
      if (key == "cat") category = value;
      if (key == "ph") phase = value;
      if (key == "pid") pid = value;
      if (key == "ts") time = value;
      if (key == "dur") duration = value;
      if (key == "args") arguments = value;
      if (key == "name") event.name = value;
    });
    const std::string_view kind = category.raw;
    const bool is_work = kind == "kernel" || kind == "gpu_memset";
    event.is_copy = kind == "gpu_memcpy";
    if (!is_object || phase.raw != "X" || (!is_work && !event.is_copy)) {
      if (kind == "cpu_op" || kind == "cuda_runtime" || kind == "user_annotation") note_pid(pid);
      ++trace.other_events;
      return;
    }
    // The time may be relative to a base that follows the events.
    if (!to_nanoseconds(time, 1000, event.wall_ns) ||
        !to_nanoseconds(duration, 1000, event.duration_ns) || event.duration_ns > kTimeMax) {
      ++trace.other_events;
      return;
    }
    visit_members(arguments.raw, [&](std::string_view key, const PfwValue& value) {
      if (key == "device") value.to_unsigned(event.device);
      if (key == "stream") value.to_unsigned(event.stream);
      if (key == "bytes") value.to_unsigned(event.size_bytes);
    });
    trace.events.push_back(event);
  }

  void take_distributed(std::string_view object) {
    visit_members(object, [&](std::string_view key, const PfwValue& value) {
      if (key == "rank") value.to_signed(trace.rank);
      if (key == "world_size") value.to_signed(trace.world_size);
    });
    const bool fits =
        trace.rank >= 0 && trace.rank < trace.world_size && trace.world_size <= INT32_MAX;
    if (!fits) trace.rank = trace.world_size = -1;
  }

  KinetoTrace finish() && {
    const auto is_out_of_range = [this](const KinetoEvent& event) {
      return event.wall_ns > kTimeMax || event.wall_ns + base_ns > kTimeMax;
    };
    const auto kept = std::remove_if(trace.events.begin(), trace.events.end(), is_out_of_range);
    trace.other_events += static_cast<uint64_t>(trace.events.end() - kept);
    trace.events.erase(kept, trace.events.end());
    for (KinetoEvent& event : trace.events) event.wall_ns += base_ns;
    std::stable_sort(trace.events.begin(), trace.events.end(),
                     [](const KinetoEvent& a, const KinetoEvent& b) {
                       return a.wall_ns + a.duration_ns < b.wall_ns + b.duration_ns;
                     });
    return std::move(trace);
  }

  KinetoTrace trace;
  uint64_t base_ns = 0;

 private:
  void note_pid(const PfwValue& value) {
    uint64_t pid = 0;
    if (trace.pid == 0 && value.to_unsigned(pid) && pid <= UINT32_MAX) trace.pid = pid;
  }
};

}  // namespace

Result<KinetoTrace> parse_kineto(std::string_view text) {
  JsonCursor cursor(text);
  KinetoReader reader;
  bool has_events = false;
  if (!cursor.take('{')) {
    return fail(Errc::kCorrupt,
                "is not a trace of torch.profiler: it does not begin with an object. Write it with "
                "profiler.export_chrome_trace()");
  }
  PfwValue key;
  for (bool is_first = true; cursor.next_member(is_first, key);) {
    if (key.raw == "traceEvents" && cursor.take('[')) {
      has_events = true;
      for (bool first_item = true; cursor.next_item(first_item);) {
        const PfwValue item = cursor.take_value();
        if (!cursor.failed()) reader.take_event(item.raw);
      }
      continue;
    }
    const PfwValue value = cursor.take_value();
    if (key.raw == "baseTimeNanoseconds" && !value.to_unsigned(reader.base_ns)) reader.base_ns = 0;
    if (key.raw == "distributedInfo") reader.take_distributed(value.raw);
  }
  if (cursor.failed()) {
    return fail(Errc::kCorrupt, "is damaged or cut off: byte {} is not JSON", cursor.at());
  }
  if (!has_events) {
    return fail(Errc::kCorrupt, "is not a trace of torch.profiler: it has no \"traceEvents\"");
  }
  if (reader.base_ns > kTimeMax) reader.base_ns = 0;
  return std::move(reader).finish();
}

}  // namespace millrace::interop
