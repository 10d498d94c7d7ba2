#include "interop/pfw/import.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text/text.h"
#include "base/text/units.h"
#include "interop/encode_text.h"
#include "wire/trace_session.h"

namespace millrace::interop {
namespace {

// Parses the sixteen digits that DFTracer 2 writes. False for other texts, which are hashed
// instead.
bool parse_hash(std::string_view text, uint64_t& hash) {
  if (text.size() != 16) return false;
  hash = 0;
  for (const char letter : text) {
    const bool digit = letter >= '0' && letter <= '9';
    if (!digit && (letter < 'a' || letter > 'f')) return false;
    hash = hash << 4 | static_cast<uint64_t>(digit ? letter - '0' : letter - 'a' + 10);
  }
  return true;
}

}  // namespace

PfwImport::PfwImport(trace::TraceWriter& writer, int64_t origin_wall_ns)
    : writer_(writer),
      origin_wall_ns_(origin_wall_ns),
      columns_(writer,
               [this](size_t index, trace::Process& process) { complete(index, process); }) {}

void PfwImport::begin_file(std::string name) {
  if (bad_lines_ > 0) {
    warnings_.push_back(bad_lines_ == 1 ? fmt::format("{}; the line was skipped", first_bad_)
                                        : fmt::format("{}; {} such lines were skipped", first_bad_,
                                                      format_exact(bad_lines_)));
  }
  file_ = std::move(name);
  line_number_ = 0;
  ns_per_unit_ = 1000;
  bad_lines_ = 0;
}

Status PfwImport::take(std::string_view lines, bool at_end) {
  while (!lines.empty()) {
    const size_t newline = lines.find('\n');
    const bool whole = newline != std::string_view::npos;
    std::string_view line = lines.substr(0, newline);
    lines.remove_prefix(whole ? newline + 1 : lines.size());
    ++line_number_;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (!line.empty() && line.front() == '[') line.remove_prefix(1);
    if (line.empty() || line == "]") continue;
    RETURN_IF_ERROR(take_line(line, !whole && at_end));
  }
  return {};
}

Status PfwImport::take_line(std::string_view line, bool may_be_torn) {
  if (!scan_pfw_line(line, line_)) {
    const Status parsed = parse_pfw_line(line, line_storage_, line_);
    if (!parsed.ok() && may_be_torn) {
      warnings_.push_back(fmt::format(
          "{}:{}: the last line is cut off; everything before it was read", file_, line_number_));
      return {};
    }
    if (!parsed.ok()) {
      complain(parsed.error().message());
      return {};
    }
  }
  if (!line_.is_metadata()) return take_event(line_);
  take_metadata(line_);
  return {};
}

void PfwImport::complain(std::string_view what) {
  if (bad_lines_++ == 0) first_bad_ = fmt::format("{}:{}: {}", file_, line_number_, what);
}

uint64_t PfwImport::hash_key(const PfwValue& value) {
  uint64_t hash = 0;
  if (!parse_hash(value.raw, hash)) {
    const std::string_view text = value.text(storage_);
    hash = wire::name_hash(text.data(), text.size());
  }
  return hash == 0 ? 1 : hash;
}

const trace::NameIndex* PfwImport::find_name(uint64_t hash) const {
  const auto found = names_.find(hash);
  return found == names_.end() ? nullptr : &found->second;
}

// ---- metadata -----------------------------------------------------------------------------------

void PfwImport::take_metadata(const PfwLine& line) {
  const PfwValue* name = line.argument("name");
  const PfwValue* value = line.argument("value");
  if (name == nullptr || value == nullptr) return;
  const std::string_view kind = line.name.raw;
  if (kind == "CM") {
    if (name->raw == "time_metric") ns_per_unit_ = pfw_unit_ns(value->raw);
    return;
  }
  if (kind == "PR") return take_process_metadata(line);
  const uint64_t hash = hash_key(*value);
  std::string bytes;
  std::string_view text = name->text(storage_);
  const PfwValue* exact = line.argument("name_hex");
  if (exact != nullptr && bytes_of_hex(exact->raw, bytes)) text = bytes;
  if (kind == "HH") {
    hosts_.emplace(hash, text);
  } else if (kind == "FH" || kind == "SH") {
    names_.emplace(hash, writer_.add_name(text));
  }
}

void PfwImport::take_process_metadata(const PfwLine& line) {
  const std::string_view name = line.argument("name")->raw;
  trace::Process& process = columns_.process(process_of(line));
  int64_t number = 0;
  if (name == "rank" && line.argument("value")->to_signed(number)) {
    process.rank = static_cast<int32_t>(number);
  }
  if (name == "millrace_process") take_program(line, process_of(line));
}

// Reads what a start event of DFTracer or a process record of ours says about a process.
void PfwImport::take_program(const PfwLine& line, size_t index) {
  trace::Process& process = columns_.process(index);
  ProcessHashes& hashes = process_hashes_[index];
  for (const PfwArgumentValue& argument : line.args) {
    const std::string_view key = argument.key.raw;
    if (key == "exec_hash") hashes.executable = hash_key(argument.value);
    if (key == "cmd_hash") hashes.command = hash_key(argument.value);
    if (key == "cwd") hashes.directory = hash_key(argument.value);
    int64_t number = 0;
    if (!argument.value.to_signed(number)) continue;
    const auto since_origin = static_cast<uint64_t>(std::max<int64_t>(number - origin_wall_ns_, 0));
    if (key == "ppid") process.parent_pid = static_cast<uint32_t>(number);
    if (key == "rank") process.rank = static_cast<int32_t>(number);
    if (key == "world_size") process.world_size = static_cast<int32_t>(number);
    if (key == "origin" && number == 1) process.origin = wire::ProcessOrigin::kFork;
    if (key == "start") process.start_ns = since_origin;
    if (key == "end") process.end_ns = std::max(process.end_ns, since_origin);
    if (key == "exited") process.exited = number != 0;
    if (key == "exit_code") process.exit_code = static_cast<int32_t>(number);
    if (key == "major_faults") process.major_faults = static_cast<uint64_t>(number);
    if (key == "minor_faults") process.minor_faults = static_cast<uint64_t>(number);
  }
}

size_t PfwImport::process_of(const PfwLine& line) {
  uint64_t pid = 0;
  uint64_t number = 0;
  line.pid.to_unsigned(pid);
  const PfwValue* host = line.argument("hhash");
  const PfwValue* own = line.argument("pr");
  // A process record of ours always has its number. An event has it only if the pid is shared.
  if (own != nullptr && own->to_unsigned(number)) ++number;
  const uint64_t host_hash = host == nullptr ? 0 : hash_key(*host);
  const ProcessKey key{host_hash, pid, number};
  if (last_process_ != ~size_t{0} && key == last_key_) return last_process_;
  auto found = processes_.find(key);
  if (found == processes_.end()) {
    const size_t index = columns_.add_process();
    columns_.process(index).pid = static_cast<uint32_t>(pid);
    process_hashes_.emplace_back();
    process_hosts_.push_back(host_hash);
    found = processes_.emplace(key, index).first;
    // Lines without a number refer to the only process with this pid.
    if (number != 0) processes_.emplace(ProcessKey{host_hash, pid, 0}, index);
  }
  last_key_ = key;
  last_process_ = found->second;
  return last_process_;
}

uint32_t PfwImport::session_of(uint64_t host_hash) {
  const auto found = sessions_.find(host_hash);
  if (found != sessions_.end()) return found->second;
  const auto host = hosts_.find(host_hash);
  trace::Session session;
  session.host = host == hosts_.end() ? "" : host->second;
  session.levels = (1u << wire::kLevelCount) - 2;  // the file does not say which were recorded
  session.alignment = "wall clock";
  const uint32_t index = writer_.add_session(session);
  sessions_.emplace(host_hash, index);
  return index;
}

void PfwImport::complete(size_t index, trace::Process& process) {
  process.session = session_of(process_hosts_[index]);
  const auto name = [this](uint64_t hash) {
    const trace::NameIndex* found = hash == 0 ? nullptr : find_name(hash);
    return found == nullptr ? trace::NameIndex{} : *found;
  };
  process.executable = name(process_hashes_[index].executable);
  process.command_line = name(process_hashes_[index].command);
  process.working_directory = name(process_hashes_[index].directory);
}

// ---- the end ------------------------------------------------------------------------------------

Status PfwImport::finish() {
  begin_file("");  // reports what was wrong with the last file
  for (Draft& draft : held_drafts_) {
    const auto resolve = [this](uint64_t hash, trace::NameIndex& name) {
      if (hash == 0) return;
      if (const trace::NameIndex* found = find_name(hash)) {
        name = *found;
        return;
      }
      ++unresolved_;
      name = writer_.add_name(fmt::format("hash {:016x}", hash));
    };
    resolve(draft.file_hash, draft.event.file);
    resolve(draft.other_hash, draft.event.other_file);
    RETURN_IF_ERROR(store(draft));
  }
  held_drafts_.clear();
  return columns_.flush();
}

std::vector<std::string> PfwImport::warnings() const {
  std::vector<std::string> all = warnings_;
  if (unresolved_ > 0) {
    all.push_back(fmt::format(
        "{} file names of events are unknown, because no line defines their hash; they appear as "
        "'hash ...'; import all files of the job together, including those of its children",
        format_exact(unresolved_)));
  }
  return all;
}

}  // namespace millrace::interop
