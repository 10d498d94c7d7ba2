// The part of PfwImport that reads events. import.cc reads lines, metadata and processes.
#include <bit>
#include <charconv>

#include "base/text/json.h"
#include "interop/encode_text.h"
#include "interop/pfw/import.h"

namespace millrace::interop {
namespace {

bool moves_items(wire::Call call) {
  return call == wire::Call::kFread || call == wire::Call::kFwrite;
}

// A text in a list of tags: plain, or {"hex": digits} if it is not UTF-8.
std::string exact_text(const Node& node) {
  const Node* hex = node.find("hex");
  std::string bytes;
  if (hex != nullptr && bytes_of_hex(hex->text(), bytes)) return bytes;
  return node.text();
}

}  // namespace

Status PfwImport::take_event(const PfwLine& line) {
  const bool own = line.category.raw == kPfwOwnCategory;
  draft_.process = process_of(line);
  if (!read_times(line)) {
    complain("the event has no valid time (ts)");
    return {};
  }
  if (own && line.name.raw == "start") {
    take_program(line, draft_.process);
    columns_.process(draft_.process).start_ns =
        draft_.wall_ns - static_cast<uint64_t>(origin_wall_ns_);
    return {};
  }
  if (own && line.name.raw == "end") {
    columns_.process(draft_.process).exited = true;
    return {};
  }
  uint64_t tid = 0;
  line.tid.to_unsigned(tid);
  draft_.tid = static_cast<uint32_t>(tid);
  draft_.event = {};
  draft_.tags.clear();
  draft_.file_hash = draft_.other_hash = draft_.item_size = draft_.nanoseconds = 0;
  read_call(line);
  for (const PfwArgumentValue& argument : line.args) read_argument(line, argument);
  settle_sizes();
  return place_event();
}

bool PfwImport::read_times(const PfwLine& line) {
  draft_.duration_ns = 0;
  if (!to_nanoseconds(line.time, ns_per_unit_, draft_.wall_ns)) return false;
  if (line.duration.present() && !to_nanoseconds(line.duration, ns_per_unit_, draft_.duration_ns)) {
    return false;
  }
  // Leaves room to add nanoseconds below, and fits a signed wall time.
  constexpr uint64_t kMax = uint64_t{1} << 62;
  if (draft_.wall_ns > kMax || draft_.duration_ns > kMax) return false;
  earliest_wall_ns_ = std::min(earliest_wall_ns_, static_cast<int64_t>(draft_.wall_ns));
  return true;
}

void PfwImport::read_call(const PfwLine& line) {
  Event& event = draft_.event;
  std::string name_storage;
  const std::string_view name = line.name.text(name_storage);
  if (const auto call = pfw_call(line.category.raw, name)) {
    event.call = *call;
    return;
  }
  uint64_t number = 0;
  const PfwValue* exact = line.argument("call");
  const bool numbered = exact != nullptr && exact->to_unsigned(number) && number <= 0xffff;
  event.call = numbered ? static_cast<wire::Call>(number)
                        : (line.duration.present() ? wire::Call::kRegion : wire::Call::kMark);
  if (!event.is_region()) return;
  event.size = wire::kNoEpoch;
  std::string bytes;
  const PfwValue* hex = line.argument("name_hex");
  event.file = writer_.add_name(hex != nullptr && bytes_of_hex(hex->raw, bytes) ? bytes : name);
  if (line.category.raw != kPfwAppCategory && line.category.present()) {
    draft_.tags.push_back(
        {.key = writer_.add_name("cat"),
         .kind = wire::TagKind::kText,
         .value = static_cast<uint64_t>(writer_.add_name(line.category.text(storage_)))});
  }
}

void PfwImport::read_argument(const PfwLine&, const PfwArgumentValue& argument) {
  const bool region = draft_.event.is_region();
  const PfwArgument known = pfw_argument(argument.key.raw);
  switch (known) {
    case PfwArgument::kHostHash:
    case PfwArgument::kProcess:
    case PfwArgument::kNameBytes:
    case PfwArgument::kCall:
      return;
    case PfwArgument::kFileHash:
      // For a region, its name takes the place of the file.
      (region ? draft_.other_hash : draft_.file_hash) = hash_key(argument.value);
      return;
    case PfwArgument::kOtherHash:
      draft_.other_hash = hash_key(argument.value);
      return;
    case PfwArgument::kFileName:
      (region ? draft_.event.other_file : draft_.event.file) =
          writer_.add_name(argument.value.text(storage_));
      return;
    case PfwArgument::kTags:
      return read_tag_list(argument.value.raw);
    case PfwArgument::kOffset:
    case PfwArgument::kCount:
    case PfwArgument::kSize:
    case PfwArgument::kFlags:
    case PfwArgument::kWhence:
      if (!region) return read_number(known, argument.value);
      break;
    case PfwArgument::kEpoch:
    case PfwArgument::kStep:
      if (region) return read_number(known, argument.value);
      break;
    case PfwArgument::kNone:
      break;
    default:
      return read_number(known, argument.value);
  }
  read_tag(argument.key.text(key_storage_), argument.value);
}

void PfwImport::read_number(PfwArgument argument, const PfwValue& value) {
  Event& event = draft_.event;
  uint64_t number = 0;
  if (argument == PfwArgument::kResult) {
    value.to_signed(event.result);
    return;
  }
  if (!value.to_unsigned(number)) {
    int64_t negative = 0;  // DFTracer writes offsets and flags of failed calls as -1
    if (!value.to_signed(negative)) return;
    number = static_cast<uint64_t>(negative);
  }
  switch (argument) {
    case PfwArgument::kOffset:
    case PfwArgument::kStep:
      event.offset = number;
      return;
    case PfwArgument::kCount:
    case PfwArgument::kEpoch:
      event.size = number;
      return;
    case PfwArgument::kSize:
      draft_.item_size = number;
      return;
    case PfwArgument::kOtherOffset:
      event.other_offset = number;
      return;
    case PfwArgument::kErrno:
      event.error = static_cast<uint16_t>(number);
      return;
    case PfwArgument::kEventFlags:
      event.flags = static_cast<uint8_t>(number);
      return;
    case PfwArgument::kNanoseconds:
      draft_.nanoseconds = number;
      return;
    default:
      event.detail = static_cast<uint32_t>(number);
  }
}

void PfwImport::read_tag(std::string_view key, const PfwValue& value) {
  trace::RegionTag tag{.key = writer_.add_name(key), .kind = wire::TagKind::kText, .value = 0};
  int64_t integer = 0;
  double number = 0;
  const char* end = value.raw.data() + value.raw.size();
  if (value.kind == PfwValue::Kind::kNumber && value.to_signed(integer)) {
    tag.kind = wire::TagKind::kInteger;
    tag.value = static_cast<uint64_t>(integer);
  } else if (value.kind == PfwValue::Kind::kNumber &&
             std::from_chars(value.raw.data(), end, number).ptr == end) {
    tag.kind = wire::TagKind::kNumber;
    tag.value = std::bit_cast<uint64_t>(number);
  } else {
    tag.value = static_cast<uint64_t>(writer_.add_name(value.text(storage_)));
  }
  draft_.tags.push_back(tag);
}

// Reads [[kind, key, value], ...], as in our exports.
void PfwImport::read_tag_list(std::string_view json) {
  const auto document = parse_json(json, "tags");
  if (!document.ok()) return complain(document.error().message());
  for (const Node& item : document->root.items()) {
    if (item.items().size() != 3) return complain("a tag is not a list of kind, key and value");
    const auto kind = item.items()[0].as_uint();
    if (!kind.ok() || *kind > static_cast<uint64_t>(wire::TagKind::kText)) {
      return complain("a tag has an unknown kind");
    }
    trace::RegionTag tag{.key = writer_.add_name(exact_text(item.items()[1])),
                         .kind = static_cast<wire::TagKind>(*kind),
                         .value = 0};
    if (tag.kind == wire::TagKind::kText) {
      tag.value = static_cast<uint64_t>(writer_.add_name(exact_text(item.items()[2])));
    } else {
      const auto value = item.items()[2].as_uint();
      if (!value.ok()) return complain(value.error().message());
      tag.value = *value;
    }
    draft_.tags.push_back(tag);
  }
}

// DFTracer counts fread and fwrite in items, Millrace in bytes.
void PfwImport::settle_sizes() {
  Event& event = draft_.event;
  if (event.is_region() || draft_.item_size == 0) return;
  if (!moves_items(event.call)) {
    if (event.size == 0) event.size = draft_.item_size;
    return;
  }
  uint64_t size = 0;
  int64_t result = 0;
  const bool fits =
      !__builtin_mul_overflow(event.size, draft_.item_size, &size) &&
      !__builtin_mul_overflow(event.result, static_cast<int64_t>(draft_.item_size), &result);
  if (!fits) return;
  event.size = size;
  event.result = result;
}

Status PfwImport::place_event() {
  ++event_count_;
  if (draft_.nanoseconds < 1'000'000) {
    const uint64_t end_ns = draft_.wall_ns + draft_.duration_ns + draft_.nanoseconds % 1000;
    draft_.wall_ns += draft_.nanoseconds / 1000;
    draft_.duration_ns = end_ns >= draft_.wall_ns ? end_ns - draft_.wall_ns : 0;
  }
  const auto resolve = [this](uint64_t& hash, trace::NameIndex& name) {
    const trace::NameIndex* found = hash == 0 ? nullptr : find_name(hash);
    if (found == nullptr) return hash == 0;
    name = *found;
    hash = 0;
    return true;
  };
  const bool has_file = resolve(draft_.file_hash, draft_.event.file);
  const bool has_other = resolve(draft_.other_hash, draft_.event.other_file);
  if (has_file && has_other) return store(draft_);
  held_drafts_.push_back(draft_);
  return {};
}

Status PfwImport::store(Draft& draft) {
  const auto origin = static_cast<uint64_t>(origin_wall_ns_);
  if (draft.wall_ns < origin) return {};  // the caller checks earliest_wall_ns()
  draft.event.begin_ns = draft.wall_ns - origin;
  draft.event.end_ns = draft.event.begin_ns + draft.duration_ns;
  draft.event.tags = draft.tags;
  return columns_.add(draft.process, draft.tid, draft.event);
}

}  // namespace millrace::interop
