#include "interop/tags.h"

#include <bit>

#include "interop/encode_text.h"

namespace millrace::interop {

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
