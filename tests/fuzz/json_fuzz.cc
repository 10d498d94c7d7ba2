// Any bytes are JSON or an error; JSON that is written and read back is the same.
#include <cstdint>
#include <cstdlib>

#include "base/text/json.h"
#include "base/text/json_writer.h"

namespace {

using millrace::JsonWriter;
using millrace::Node;

void write(JsonWriter& json, const Node& node) {
  switch (node.kind()) {
    case Node::Kind::kMap:
      json.begin_object();
      for (const auto& [name, member] : node.members()) {
        json.key(name);
        write(json, member);
      }
      return json.end_object();
    case Node::Kind::kList:
      json.begin_list();
      for (const Node& item : node.items()) write(json, item);
      return json.end_list();
    case Node::Kind::kNull:
      return json.null();
    case Node::Kind::kBool:
      return json.value(*node.as_bool());
    default:
      return json.value(node.text());  // numbers as text: their spelling may change
  }
}

bool same(const Node& a, const Node& b) {
  if (a.text() != b.text() || a.items().size() != b.items().size() ||
      a.members().size() != b.members().size()) {
    return false;
  }
  for (size_t i = 0; i < a.items().size(); ++i) {
    if (!same(a.items()[i], b.items()[i])) return false;
  }
  for (size_t i = 0; i < a.members().size(); ++i) {
    if (a.members()[i].first != b.members()[i].first) return false;
    if (!same(a.members()[i].second, b.members()[i].second)) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto document =
      millrace::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!document.ok()) {
    if (document.error().message().find("fuzz.json:") != 0) std::abort();
    return 0;
  }
  JsonWriter json;
  write(json, document->root);
  const auto again = millrace::parse_json(std::move(json).finish(), "again");
  if (!again.ok() || !same(document->root, again->root)) std::abort();
  return 0;
}
