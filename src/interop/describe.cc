#include "interop/describe.h"

#include <fmt/core.h>
#include <string.h>

#include <bit>

#include "base/text/text.h"
#include "interop/encode_text.h"

namespace millrace::interop {
namespace {

// The last part of a path: it identifies a program, and tracks have little room.
std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string call_name(wire::Call call) {
  if (const wire::CallInfo* info = wire::call_info(call)) return info->name;
  return fmt::format("call_{:#x}", static_cast<uint16_t>(call));
}

std::string_view level_name(wire::Call call) {
  const auto level = static_cast<size_t>(wire::level_of(call));
  return wire::kLevelNames[level < wire::kLevelCount ? level : 0];
}

std::string event_name(const trace::Trace& trace, const Event& event) {
  if (!event.is_region()) return call_name(event.call);
  return std::string(trace.name(event.file));
}

std::string error_name(uint16_t error) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
  if (const char* name = strerrorname_np(error)) return name;
#endif
  return std::to_string(error);
}

std::string process_title(const trace::Trace& trace, const trace::Process& process) {
  std::string title;
  if (process.rank >= 0) title = fmt::format("rank {} ", process.rank);
  std::string_view command = trace.name(process.command_line);
  if (command.empty()) command = base_name(trace.name(process.executable));
  title += command.empty() ? "process" : well_formed(shorten(command, 120));
  const std::string_view host = host_of(trace, process);
  if (!host.empty()) title += fmt::format(" ({})", well_formed(host));
  return title;
}

std::string_view host_of(const trace::Trace& trace, const trace::Process& process) {
  if (process.session >= trace.sessions().size()) return {};
  return trace.sessions()[process.session].host;
}

const trace::Process* process_of(const trace::Trace& trace, trace::ThreadIndex thread) {
  if (static_cast<size_t>(thread) >= trace.threads().size()) return nullptr;
  const auto process = static_cast<size_t>(trace.threads()[static_cast<size_t>(thread)].process);
  return process < trace.processes().size() ? &trace.processes()[process] : nullptr;
}

void append_tag_value(const trace::Trace& trace, const trace::RegionTag& tag, std::string& out) {
  switch (tag.kind) {
    case wire::TagKind::kInteger:
      return append_integer(out, static_cast<int64_t>(tag.value));
    case wire::TagKind::kNumber:
      return append_number(out, std::bit_cast<double>(tag.value));
    case wire::TagKind::kText:
      return append_json_text(out, trace.name(static_cast<trace::NameIndex>(tag.value)));
    case wire::TagKind::kNone:
      break;
  }
  out += "null";
}

void append_tags(const trace::Trace& trace, std::span<const trace::RegionTag> tags,
                 std::string& out) {
  bool first = true;
  for (const trace::RegionTag& tag : tags) {
    if (!first) out += ',';
    first = false;
    append_json_text(out, trace.name(tag.key));
    out += ':';
    append_tag_value(trace, tag, out);
  }
}

}  // namespace millrace::interop
