#include "model/modelled_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/phrases.h"
#include "base/text/text.h"

namespace millrace::model {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kCommentColumn = 44;

// As in the files of DLIO.
constexpr std::string_view kSections[] = {"model",  "",      "workflow",   "dataset",
                                          "reader", "train", "evaluation", "checkpoint"};

std::string_view section_of(std::string_view key) {
  const size_t dot = key.find('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

std::string comment_lines(std::string_view text, size_t indent) {
  std::string out;
  for (const std::string& line : wrap(text, kColumns - indent - 2)) {
    out += fmt::format("{}# {}\n", std::string(indent, ' '), line);
  }
  return out;
}

std::string reason_of(const DerivedKey& key) {
  const std::string why = printable(key.why);
  if (!key.assumed) return why;
  return why.empty() ? "assumed" : "assumed: " + why;
}

// Behind the value if it fits there, otherwise above.
std::string line_of(const DerivedKey& key, size_t indent) {
  const std::string_view name = std::string_view(key.key).substr(
      section_of(key.key).empty() ? 0 : section_of(key.key).size() + 1);
  std::string line = fmt::format("{}{}: {}", std::string(indent, ' '), name, key.value);
  const std::string reason = reason_of(key);
  if (reason.empty()) return line + "\n";
  const size_t column = std::max(line.size() + 2, kCommentColumn);
  if (column + 2 + reason.size() > kColumns) return comment_lines(reason, indent) + line + "\n";
  line.resize(column, ' ');
  return fmt::format("{}# {}\n", line, reason);
}

std::string head_of(const Modelled& modelled) {
  std::string out = comment_lines(modelled.workload.description +
                                      ", as `millrace model` found it "
                                      "in a trace.",
                                  0);
  if (modelled.ranks > 1) {
    out += comment_lines(
        fmt::format("The job had {0} ranks: run this with `--accelerators {0}`.", modelled.ranks),
        0);
  }
  const auto add = [&](std::string_view title, const std::vector<std::string>& sentences) {
    if (sentences.empty()) return;
    out += fmt::format("#\n# {}:\n", title);
    for (const std::string& sentence : sentences) {
      const std::vector<std::string> lines = wrap(printable(sentence), kColumns - 4);
      for (size_t i = 0; i < lines.size(); ++i) {
        out += fmt::format("# {} {}\n", i == 0 ? "-" : " ", lines[i]);
      }
    }
  };
  add("Assumed, because the trace does not show it", modelled.assumptions);
  add("Not modelled", modelled.missing);
  return out;
}

void write_list(JsonWriter& json, std::string_view name, const std::vector<std::string>& list) {
  json.key(name);
  json.begin_list();
  for (const std::string& text : list) json.value(std::string_view(text));
  json.end_list();
}

}  // namespace

std::string modelled_yaml(const Modelled& modelled) {
  std::string out = head_of(modelled);
  for (const std::string_view section : kSections) {
    std::string lines;
    for (const DerivedKey& key : modelled.keys) {
      if (section_of(key.key) == section) lines += line_of(key, section.empty() ? 0 : 2);
    }
    if (lines.empty()) continue;
    out += '\n';
    if (!section.empty()) out += fmt::format("{}:\n", section);
    out += lines;
  }
  return out;
}

void write_modelled(JsonWriter& json, const Modelled& modelled) {
  json.field("name", std::string_view(modelled.workload.name));
  json.field("ranks", modelled.ranks);
  json.key("keys");
  json.begin_list();
  for (const DerivedKey& key : modelled.keys) {
    json.begin_object(JsonLayout::kOneLine);
    json.field("key", std::string_view(key.key));
    json.field("value", std::string_view(key.value));
    json.field("why", std::string_view(key.why));
    json.field("assumed", key.assumed);
    json.end_object();
  }
  json.end_list();
  write_list(json, "assumptions", modelled.assumptions);
  write_list(json, "missing", modelled.missing);
}

}  // namespace millrace::model
