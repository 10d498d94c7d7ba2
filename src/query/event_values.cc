#include "query/event_values.h"

#include <fmt/core.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "analyze/call_traits.h"
#include "base/text/json_writer.h"

namespace millrace::query {
namespace {

using wire::Call;

// Above all name indices.
constexpr uint64_t kCallKey = uint64_t{1} << 32;
constexpr uint64_t kNullKey = ~uint64_t{0};

std::optional<std::string_view> name_at(const trace::Trace& trace, trace::NameIndex index) {
  if (index == trace::NameIndex{}) return std::nullopt;
  return trace.name(index);
}

std::optional<int64_t> unless(uint64_t value, uint64_t none) {
  if (value == none) return std::nullopt;
  // The largest integer in SQL.
  return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
}

std::optional<std::string_view> error_name(uint16_t error) {
  if (error == 0) return std::nullopt;
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
  if (const char* name = strerrorname_np(error)) return name;
#endif
  return "unknown";
}

void write_tag(JsonWriter& json, const trace::Trace& trace, const trace::RegionTag& tag) {
  json.key(trace.name(tag.key));
  switch (tag.kind) {
    case wire::TagKind::kInteger:
      return json.value(static_cast<int64_t>(tag.value));
    case wire::TagKind::kNumber:
      return json.value(std::bit_cast<double>(tag.value));
    case wire::TagKind::kText:
      return json.value(trace.name(static_cast<trace::NameIndex>(tag.value)));
    case wire::TagKind::kNone:
      break;
  }
  json.null();
}

}  // namespace

std::string_view kind_name(wire::CallKind kind) {
  constexpr std::string_view kNames[] = {
      "other", "open",     "close",     "read", "write",     "transfer", "seek",
      "sync",  "metadata", "directory", "map",  "duplicate", "process",  "region"};
  const auto index = static_cast<size_t>(kind);
  return kNames[index < std::size(kNames) ? index : 0];
}

std::optional<std::string_view> layer_name(const analyze::Context& context, const EventRow& event) {
  if (event.is_region()) {
    const analyze::Role role = context.role(event.columns.file[event.row]);
    return analyze::kLayerNames[static_cast<size_t>(analyze::layer_of(role))];
  }
  if (wire::call_info(event.call()) == nullptr) return std::nullopt;
  return analyze::kLayerNames[static_cast<size_t>(analyze::traits_of(event.call()).layer)];
}

EventValues::EventValues(QueriedTrace& source)
    : source_(source), call_names_(analyze::kCallTableSize) {
  for (size_t i = 0; i < call_names_.size(); ++i) {
    const wire::CallInfo* info = wire::call_info(static_cast<Call>(i));
    if (info == nullptr) continue;
    call_names_[i] = info->name;
    if (wire::level_of(static_cast<Call>(i)) == wire::Level::kApp) continue;
    call_keys_.try_emplace(call_names_[i], kCallKey + i);
  }
}

std::string_view EventValues::name_of(Call call) {
  const auto number = static_cast<size_t>(call);
  if (number < call_names_.size() && !call_names_[number].empty()) return call_names_[number];
  std::string& name = unknown_calls_[call];
  if (name.empty()) name = fmt::format("call_{:#x}", number);
  return name;
}

std::optional<std::string_view> EventValues::text(EventColumn column, const EventRow& event) {
  const trace::Trace& trace = source_.trace();
  const trace::EventColumns& columns = event.columns;
  const size_t row = event.row;
  switch (column) {
    case EventColumn::kName:
      return event.is_region() ? trace.name(columns.file[row]) : name_of(columns.call[row]);
    case EventColumn::kLayer:
      return layer_name(source_.context(), event);
    case EventColumn::kFile:
      if (event.is_region()) return std::nullopt;
      return name_at(trace, columns.file[row]);
    case EventColumn::kHost: {
      const trace::Process* process = source_.process_of(columns.thread[row]);
      if (process == nullptr) return std::nullopt;
      return source_.host_of(*process);
    }
    case EventColumn::kKind:
      return kind_name(analyze::traits_of(columns.call[row]).kind);
    case EventColumn::kRole: {
      if (!event.is_region()) return std::nullopt;
      const analyze::Role role = source_.context().role(columns.file[row]);
      if (role == analyze::Role::kNone) return std::nullopt;
      return analyze::kRoleNames[static_cast<size_t>(role)];
    }
    case EventColumn::kOtherFile:
      return name_at(trace, columns.other_file[row]);
    case EventColumn::kError:
      return error_name(columns.error[row]);
    case EventColumn::kTags:
      return tags(event);
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> EventValues::integer(EventColumn column, const EventRow& event) {
  const trace::EventColumns& columns = event.columns;
  const size_t row = event.row;
  switch (column) {
    case EventColumn::kOffset:
      if (event.is_region()) return std::nullopt;
      return unless(columns.offset[row], wire::kNoOffset);
    case EventColumn::kSize:
      if (event.is_region()) return std::nullopt;
      return unless(columns.size[row], std::numeric_limits<uint64_t>::max());
    case EventColumn::kResult:
      if (event.is_region()) return std::nullopt;
      return columns.result[row];
    case EventColumn::kBegin:
      return static_cast<int64_t>(columns.begin_ns[row] - source_.begin_ns());
    case EventColumn::kDuration:
      return static_cast<int64_t>(columns.duration_ns[row]);
    case EventColumn::kErrno:
      return columns.error[row];
    case EventColumn::kDetail:
      return columns.detail[row];
    case EventColumn::kWall:
      return source_.trace().origin_wall_ns() + static_cast<int64_t>(columns.begin_ns[row]);
    case EventColumn::kEpoch:
      return epoch(event);
    case EventColumn::kStep:
      return step(event);
    default:
      break;
  }
  const trace::Process* process = source_.process_of(columns.thread[row]);
  if (process == nullptr) return std::nullopt;
  const trace::Thread& thread = source_.trace().threads()[static_cast<size_t>(columns.thread[row])];
  if (column == EventColumn::kPid) return process->pid;
  if (column == EventColumn::kTid) return thread.tid;
  if (column == EventColumn::kProcess) return static_cast<int64_t>(thread.process);
  const int32_t rank = source_.rank_of(thread.process);
  return rank < 0 ? std::nullopt : std::optional<int64_t>(rank);
}

uint32_t EventValues::group_of(const EventRow& event) {
  const trace::ThreadIndex thread = event.columns.thread[event.row];
  const auto process = source_.trace().threads()[static_cast<size_t>(thread)].process;
  return static_cast<uint32_t>(source_.context().group(process));
}

std::optional<int64_t> EventValues::epoch(const EventRow& event) {
  if (event.is_region() && event.columns.size[event.row] != wire::kNoEpoch) {
    return static_cast<int64_t>(event.columns.size[event.row]);
  }
  if (source_.process_of(event.columns.thread[event.row]) == nullptr) return std::nullopt;
  const int64_t found =
      source_.context().epochs.reading_at(group_of(event), event.columns.begin_ns[event.row]);
  return found < 0 ? std::nullopt : std::optional(found);
}

std::optional<int64_t> EventValues::step(const EventRow& event) {
  if (event.is_region() && event.columns.offset[event.row] != wire::kNoStep) {
    return static_cast<int64_t>(event.columns.offset[event.row]);
  }
  if (source_.process_of(event.columns.thread[event.row]) == nullptr) return std::nullopt;
  const analyze::StepSpan* found =
      source_.context().epochs.step_at(group_of(event), event.columns.begin_ns[event.row]);
  if (found == nullptr || found->step < 0) return std::nullopt;
  return found->step;
}

std::optional<std::string_view> EventValues::tags(const EventRow& event) {
  const trace::EventColumns& columns = event.columns;
  if (columns.tag_begin.empty()) return std::nullopt;
  const size_t first = columns.tag_begin[event.row];
  const size_t last = columns.tag_begin[event.row + 1];
  if (first == last) return std::nullopt;
  JsonWriter json;
  json.begin_object(JsonLayout::kOneLine);
  for (size_t i = first; i < last; ++i) write_tag(json, source_.trace(), columns.tags[i]);
  json.end_object();
  made_ = std::move(json).finish();
  while (made_.ends_with('\n')) made_.pop_back();
  return made_;
}

uint64_t EventValues::name_key(const EventRow& event) {
  if (!event.is_region()) return kCallKey + static_cast<uint64_t>(event.call());
  if (region_keys_.empty()) region_keys_.resize(source_.trace().names().size());
  const auto index = static_cast<size_t>(event.columns.file[event.row]);
  uint64_t& key = region_keys_[index];
  if (key == 0) {
    const auto call = call_keys_.find(source_.trace().names()[index]);
    // Names begin at 0, but 0 means "not looked up".
    key = call != call_keys_.end() ? call->second : index + 1;
  }
  return key;
}

uint64_t EventValues::group_key(EventColumn column, const EventRow& event) {
  switch (column) {
    case EventColumn::kName:
      return name_key(event);
    case EventColumn::kFile:
      return event.is_region() ? 0 : static_cast<uint64_t>(event.columns.file[event.row]);
    case EventColumn::kLayer:
    case EventColumn::kKind:
    case EventColumn::kRole: {
      // These texts come from our own tables, which contain each text once.
      const auto value = text(column, event);
      return value ? std::bit_cast<uintptr_t>(value->data()) : kNullKey;
    }
    case EventColumn::kHost: {
      const trace::Process* process = source_.process_of(event.columns.thread[event.row]);
      if (process == nullptr) return kNullKey;
      // If a host has several sessions, the first represents them all.
      const auto& sessions = source_.trace().sessions();
      const std::string_view host = source_.host_of(*process);
      const auto first = std::find_if(sessions.begin(), sessions.end(),
                                      [&](const auto& session) { return session.host == host; });
      return static_cast<uint64_t>(first - sessions.begin());
    }
    default: {
      const auto value = integer(column, event);
      return value ? static_cast<uint64_t>(*value) : kNullKey;
    }
  }
}

}  // namespace millrace::query
