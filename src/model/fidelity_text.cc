#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "model/fidelity.h"

namespace millrace::model {
namespace {

std::string value_text(const Measure& measure, double value, const std::string& text) {
  switch (measure.unit) {
    case Unit::kBytes:
      return format_bytes(static_cast<uint64_t>(std::llround(value)));
    case Unit::kTime:
      return format_duration(std::chrono::nanoseconds(std::llround(value)));
    case Unit::kShare:
      return format_percent(value);
    case Unit::kText:
      return text;
    case Unit::kCount:
      break;
  }
  return fmt::format("{:.3g}", value);
}

std::string ratio_text(const Measure& measure) {
  const auto ratio = measure.ratio();
  if (ratio) return fmt::format("{:.2f}", *ratio);
  return measure.unit == Unit::kText ? (measure.is_close() ? "same" : "differs") : "-";
}

}  // namespace

std::string fidelity_text(const Fidelity& fidelity, const Terminal& terminal) {
  using Align = Table::Align;
  Table table({{"", Align::kLeft, true},
               {"original", Align::kRight},
               {"model", Align::kRight},
               {"ratio", Align::kRight}});
  for (const Measure& measure : fidelity.measures) {
    const Style style = measure.is_close() ? Style::kPlain : Style::kWarning;
    table.add_row({measure.name,
                   value_text(measure, measure.original, measure.original_text),
                   value_text(measure, measure.model, measure.model_text),
                   {ratio_text(measure), style}});
  }
  std::string out = table.render(terminal);
  out += fmt::format("\n{} of {} measures are close: within 10 %, shares within 5 points\n",
                     fidelity.close_count(), fidelity.measures.size());
  for (const std::string& note : fidelity.notes) {
    for (const std::string& line : wrap(note, terminal.columns)) out += line + "\n";
  }
  return out;
}

void write_fidelity(JsonWriter& json, const Fidelity& fidelity) {
  json.begin_list();
  for (const Measure& measure : fidelity.measures) {
    json.begin_object(JsonLayout::kOneLine);
    json.field("name", std::string_view(measure.name));
    json.field("unit", kUnitNames[static_cast<size_t>(measure.unit)]);
    if (measure.unit == Unit::kText) {
      json.field("original", std::string_view(measure.original_text));
      json.field("model", std::string_view(measure.model_text));
    } else {
      json.field("original", measure.original);
      json.field("model", measure.model);
    }
    json.key("ratio");
    if (const auto ratio = measure.ratio()) {
      json.value(*ratio);
    } else {
      json.null();
    }
    json.field("close", measure.is_close());
    json.end_object();
  }
  json.end_list();
}

}  // namespace millrace::model
