// The exporter `pfw`: writes files of DFTracer 2.x, for DFTracer's own tools.
//
// One JSON object per line. Times are in microseconds of wall clock time, because dftracer_stats
// assumes that whatever unit the file declares. What DFTracer cannot express (the nanoseconds below
// a microsecond, errno, tags, ...) is in arguments that its tools ignore, so that importing the
// file restores the trace. docs/formats/exports.md lists them.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/text/text.h"
#include "interop/describe.h"
#include "interop/encode_text.h"
#include "interop/interop.h"
#include "interop/pfw/vocabulary.h"
#include "wire/trace_session.h"

namespace millrace::interop {
namespace {

// Whether a key cannot be confused with one of DFTracer's own arguments.
bool is_plain_key(std::string_view key) {
  if (key.empty() || key.size() > 64) return false;
  for (const char letter : key) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '_';
    if (!plain) return false;
  }
  return pfw_argument(key) == PfwArgument::kNone;
}

class PfwWriter {
 public:
  PfwWriter(const trace::Trace& trace, Sink& sink)
      : trace_(trace), sink_(sink), out_(sink.buffer()) {
    choose_hashes();
    mark_shared_pids();
  }

  Status write_head() {
    for (size_t i = 0; i < trace_.processes().size(); ++i) {
      write_process(i);
      RETURN_IF_ERROR(sink_.flush_if_full());
    }
    return {};
  }

  Status write_event(const Event& event) {
    const trace::Process* process = process_of(trace_, event.thread);
    if (process == nullptr) return {};
    const trace::Thread& thread = trace_.threads()[static_cast<size_t>(event.thread)];
    const EventOrigin place{.pid = process->pid,
                            .tid = thread.tid,
                            .host = host_of(trace_, *process),
                            .process = static_cast<size_t>(thread.process)};
    if (!event.is_region()) define(event.file, "FH", place);
    define(event.other_file, "FH", place);
    begin_event(event, place);
    write_arguments(event, place);
    out_ += "}}\n";
    return sink_.flush_if_full();
  }

 private:
  struct EventOrigin {
    uint32_t pid = 0;
    uint32_t tid = 0;
    std::string_view host;
    size_t process = 0;
  };

  // The hash of a name is the hash of its bytes, so that several exports agree. If two names of
  // this trace have the same hash, the later one takes the next free number.
  void choose_hashes() {
    std::unordered_map<uint64_t, size_t> taken;
    hashes_.resize(trace_.names().size());
    defined_.resize(trace_.names().size());
    for (size_t i = 0; i < hashes_.size(); ++i) {
      const std::string& name = trace_.names()[i];
      hashes_[i] = wire::name_hash(name.data(), name.size());
      while (!taken.emplace(hashes_[i], i).second) ++hashes_[i];
    }
  }

  // Processes with the same host and pid (exec, reused pids) are distinguished by a number of ours.
  void mark_shared_pids() {
    std::map<std::pair<std::string_view, uint32_t>, size_t> count;
    const auto& processes = trace_.processes();
    for (const auto& process : processes) ++count[{host_of(trace_, process), process.pid}];
    for (const auto& process : processes) {
      shared_pid_.push_back(count[{host_of(trace_, process), process.pid}] > 1);
    }
  }

  void member(std::string_view key) {
    out_ += ",\"";
    out_ += key;
    out_ += "\":";
  }

  template <typename Integer>
  void integer(std::string_view key, Integer value) {
    member(key);
    append_integer(out_, value);
  }

  void hash(std::string_view key, uint64_t value) {
    member(key);
    out_ += '"';
    append_hex(out_, value);
    out_ += '"';
  }

  void hash_of(std::string_view key, trace::NameIndex name) {
    if (name == trace::NameIndex{}) return;
    hash(key, hashes_[static_cast<size_t>(name)]);
  }

  void begin_metadata(std::string_view kind, const EventOrigin& place) {
    out_ += "{\"name\":\"";
    out_ += kind;
    out_ += "\",\"cat\":\"dftracer\",\"type\":1";
    integer("pid", place.pid);
    integer("tid", place.tid);
    out_ += ",\"ph\":4,\"args\":{\"hhash\":\"";
    append_hex(out_, wire::name_hash(place.host.data(), place.host.size()));
    out_ += '"';
  }

  void text_metadata(std::string_view kind, const EventOrigin& place, std::string_view name,
                     std::string_view value) {
    begin_metadata(kind, place);
    member("name");
    append_json_text(out_, name);
    member("value");
    append_json_text(out_, value);
    out_ += "}}\n";
  }

  // Defines once which text a hash stands for.
  void define(trace::NameIndex index, std::string_view kind, const EventOrigin& place) {
    const auto i = static_cast<size_t>(index);
    if (i == 0 || i >= defined_.size() || defined_[i]) return;
    defined_[i] = true;
    const std::string_view name = trace_.name(index);
    begin_metadata(kind, place);
    member("name");
    append_json_text(out_, name);
    hash("value", hashes_[i]);
    if (!is_utf8(name)) {
      member("name_hex");
      out_ += '"';
      append_hex_bytes(out_, name);
      out_ += '"';
    }
    out_ += "}}\n";
  }

  void write_process(size_t index) {
    const trace::Process& process = trace_.processes()[index];
    const EventOrigin place{
        .pid = process.pid, .tid = process.pid, .host = host_of(trace_, process), .process = index};
    std::string host_hash;
    append_hex(host_hash, wire::name_hash(place.host.data(), place.host.size()));
    text_metadata("HH", place, place.host, host_hash);
    text_metadata("CM", place, "time_metric", "US");
    define(process.executable, "SH", place);
    define(process.command_line, "SH", place);
    define(process.working_directory, "FH", place);
    if (process.rank >= 0) {
      begin_metadata("PR", place);
      out_ += fmt::format(",\"name\":\"rank\",\"value\":\"{}\"", process.rank);
      integer("pr", index);
      out_ += "}}\n";
    }
    begin_metadata("PR", place);
    out_ += ",\"name\":\"millrace_process\",\"value\":\"1\"";
    integer("pr", index);
    integer("ppid", process.parent_pid);
    integer("rank", process.rank);
    integer("world_size", process.world_size);
    integer("origin", static_cast<uint32_t>(process.origin));
    integer("start", trace_.origin_wall_ns() + static_cast<int64_t>(process.start_ns));
    integer("end", trace_.origin_wall_ns() + static_cast<int64_t>(process.end_ns));
    integer("exited", process.exited ? 1 : 0);
    integer("exit_code", process.exit_code);
    integer("major_faults", process.major_faults);
    integer("minor_faults", process.minor_faults);
    hash_of("exec_hash", process.executable);
    hash_of("cmd_hash", process.command_line);
    hash_of("cwd", process.working_directory);
    out_ += "}}\n";
  }

  // The category of a region: the one it was imported with, if that reads back the same way.
  std::string_view category_of(const Event& event) const {
    if (!event.is_region() || event.tags.empty()) return pfw_category(event.call);
    const trace::RegionTag& first = event.tags.front();
    if (first.kind != wire::TagKind::kText || trace_.name(first.key) != "cat") {
      return kPfwAppCategory;
    }
    const std::string_view category = trace_.name(static_cast<trace::NameIndex>(first.value));
    const bool usable = !category.empty() && is_utf8(category) && category != kPfwAppCategory &&
                        category != kPfwOwnCategory && !pfw_call(category, trace_.name(event.file));
    return usable ? category : kPfwAppCategory;
  }

  void begin_event(const Event& event, const EventOrigin& place) {
    out_ += "{\"id\":";
    append_integer(out_, ++id_);
    member("name");
    append_json_text(out_, event_name(trace_, event));
    member("cat");
    append_json_text(out_, category_of(event));
    integer("type", pfw_type(event.call));
    integer("pid", place.pid);
    integer("tid", place.tid);
    // Begin and end are rounded, and not the duration, so that nested events stay nested.
    const uint64_t begin = static_cast<uint64_t>(trace_.origin_wall_ns()) + event.begin_ns;
    const uint64_t end = begin + event.duration_ns();
    integer("ts", begin / 1000);
    integer("dur", end / 1000 - begin / 1000);
    out_ += ",\"ph\":1,\"args\":{\"hhash\":\"";
    append_hex(out_, wire::name_hash(place.host.data(), place.host.size()));
    out_ += '"';
    if (begin % 1000 != 0 || end % 1000 != 0) integer("ns", begin % 1000 * 1000 + end % 1000);
    if (shared_pid_[place.process]) integer("pr", place.process);
  }

  void write_call(const Event& event) {
    const wire::CallInfo* info = wire::call_info(event.call);
    const wire::CallKind kind = info != nullptr ? info->kind : wire::CallKind::kOther;
    if (info == nullptr) integer("call", static_cast<uint16_t>(event.call));
    integer("ret", event.result);
    if (event.offset != wire::kNoOffset) integer("offset", event.offset);
    if (event.size != 0) integer("count", event.size);
    // DFTracer counts fread and fwrite in items. Millrace counts bytes, so the item size is 1.
    if (event.call == wire::Call::kFread || event.call == wire::Call::kFwrite) integer("size", 1);
    hash_of("fhash", event.file);
    if (event.detail == 0) return;
    const bool seeks = event.call == wire::Call::kLseek || event.call == wire::Call::kFseek;
    integer(kind == wire::CallKind::kOpen ? "flags" : seeks ? "whence" : "detail", event.detail);
  }

  void write_region(const Event& event) {
    const std::string_view name = trace_.name(event.file);
    if (event.size != wire::kNoEpoch) integer("epoch", event.size);
    if (event.offset != wire::kNoStep) integer("step", event.offset);
    if (event.call != wire::Call::kRegion) integer("call", static_cast<uint16_t>(event.call));
    if (event.result != 0) integer("ret", event.result);
    if (event.detail != 0) integer("detail", event.detail);
    if (!is_utf8(name)) {
      member("name_hex");
      out_ += '"';
      append_hex_bytes(out_, name);
      out_ += '"';
    }
  }

  void write_arguments(const Event& event, const EventOrigin&) {
    if (event.is_region()) {
      write_region(event);
    } else {
      write_call(event);
    }
    hash_of("newpath_hash", event.other_file);
    if (event.other_offset != wire::kNoOffset) integer("other_offset", event.other_offset);
    if (event.error != 0) integer("errno", event.error);
    if (event.flags != 0) integer("event_flags", event.flags);
    write_tags(event);
  }

  void write_tags(const Event& event) {
    std::span<const trace::RegionTag> tags = event.tags;
    if (tags.empty()) return;
    if (event.is_region() && category_of(event) != kPfwAppCategory) tags = tags.subspan(1);
    if (std::all_of(tags.begin(), tags.end(),
                    [&](const trace::RegionTag& tag) { return is_plain(tag, tags); })) {
      for (const trace::RegionTag& tag : tags) {
        member(trace_.name(tag.key));
        append_tag_value(trace_, tag, out_);
      }
      return;
    }
    member("tags");
    out_ += '[';
    for (size_t i = 0; i < tags.size(); ++i) write_listed(tags[i], i == 0);
    out_ += ']';
  }

  bool is_plain(const trace::RegionTag& tag, std::span<const trace::RegionTag> all) const {
    const auto same = std::count_if(all.begin(), all.end(), [&](const trace::RegionTag& other) {
      return other.key == tag.key;
    });
    if (same != 1 || !is_plain_key(trace_.name(tag.key))) return false;
    switch (tag.kind) {
      case wire::TagKind::kInteger:
        return true;
      case wire::TagKind::kNumber:
        return std::isfinite(std::bit_cast<double>(tag.value));
      case wire::TagKind::kText:
        return is_utf8(trace_.name(static_cast<trace::NameIndex>(tag.value)));
      case wire::TagKind::kNone:
        break;
    }
    return false;
  }

  // Writes [kind, key, value] for what JSON members cannot represent: duplicate keys, NaN, texts
  // that are not UTF-8.
  void write_listed(const trace::RegionTag& tag, bool first) {
    if (!first) out_ += ',';
    out_ += '[';
    append_integer(out_, static_cast<uint32_t>(tag.kind));
    out_ += ',';
    write_exact_text(trace_.name(tag.key));
    out_ += ',';
    if (tag.kind == wire::TagKind::kText) {
      write_exact_text(trace_.name(static_cast<trace::NameIndex>(tag.value)));
    } else {
      append_integer(out_, tag.value);
    }
    out_ += ']';
  }

  void write_exact_text(std::string_view text) {
    if (is_utf8(text)) return append_json_text(out_, text);
    out_ += "{\"hex\":\"";
    append_hex_bytes(out_, text);
    out_ += "\"}";
  }

  const trace::Trace& trace_;
  Sink& sink_;
  std::string& out_;
  std::vector<uint64_t> hashes_;  // by name
  std::vector<bool> defined_;     // by name
  std::vector<bool> shared_pid_;  // by process
  uint64_t id_ = 0;
};

}  // namespace

Status export_pfw(const trace::Trace& trace, const Selection& selection, Sink& sink,
                  ExportReport& report) {
  PfwWriter writer(trace, sink);
  RETURN_IF_ERROR(writer.write_head());
  return visit_events(trace, selection, [&](const Event& event) -> Status {
    ++report.event_count;
    return writer.write_event(event);
  });
}

}  // namespace millrace::interop
