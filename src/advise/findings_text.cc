#include "advise/findings_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

constexpr size_t kIndent = 10;  // of the text after a label
constexpr std::string_view kNothing = "no problems found in this trace\n";

Style style_of(Severity severity) {
  switch (severity) {
    case Severity::kProblem:
      return Style::kBad;
    case Severity::kWarning:
      return Style::kWarning;
    default:
      return Style::kPlain;
  }
}

std::string_view name_of(Severity severity) {
  return kSeverityNames[static_cast<size_t>(severity)];
}

// "problem   text of several lines,
//            the next ones indented"
void add(std::string& out, std::string_view label, std::string_view text, const Terminal& terminal,
         Style style = Style::kPlain) {
  const size_t columns = std::max<size_t>(terminal.columns, kIndent + 20) - kIndent;
  out += styled(label, style, terminal.color);
  size_t written = display_width(label);
  for (const std::string& line : wrap(printable(text), columns)) {
    out.append(kIndent - std::min(written, kIndent - 1), ' ');
    out += line + "\n";
    written = 0;
  }
}

std::string saving(const Gain& gain) {
  if (gain.saved_ns == 0) return "";
  return fmt::format("up to {}, {} of the wall time",
                     format_duration(std::chrono::nanoseconds(static_cast<int64_t>(gain.saved_ns))),
                     format_percent(gain.share));
}

void add_finding(std::string& out, const Finding& finding, const Terminal& terminal) {
  add(out, name_of(finding.severity), fmt::format("{} ({})", finding.title, finding.rule), terminal,
      style_of(finding.severity));
  for (const Change& change : finding.changes) {
    add(out, change.framework == "any" ? "  do" : "  " + change.framework, change.text, terminal);
  }
  const std::string saved = saving(finding.gain);
  add(out, "  gain", saved.empty() ? finding.gain.how : saved + ": " + finding.gain.how, terminal);
  for (const Evidence& evidence : finding.evidence) {
    add(out, "  seen", fmt::format("{} [{}]", evidence.text, evidence.where), terminal);
  }
  add(out, "  limit", finding.threshold, terminal);
}

std::string unknowns(const Machine& machine) {
  std::vector<std::string> unknown;
  if (!machine.memory_bytes) unknown.emplace_back("memory of the hosts (--memory)");
  if (!machine.local_disk_bytes) unknown.emplace_back("free space on local disks (--local-disk)");
  if (machine.data_storage == Storage::kUnknown) {
    unknown.emplace_back("storage of the data (--data-storage)");
  }
  return join(unknown, ", ");
}

}  // namespace

std::string findings_text(const std::vector<Finding>& findings, const Machine& machine,
                          const Terminal& terminal) {
  std::string out;
  if (findings.empty()) out += kNothing;
  for (const Finding& finding : findings) {
    if (!out.empty()) out += "\n";
    add_finding(out, finding, terminal);
  }
  if (const std::string unknown = unknowns(machine); !unknown.empty()) {
    out += "\n";
    add(out, "unknown", unknown + ": rules that need these were skipped", terminal);
  }
  return out;
}

std::string findings_brief(const std::vector<Finding>& findings, size_t count_max,
                           const Terminal& terminal) {
  if (findings.empty()) return std::string(kNothing);
  const size_t columns = std::max<size_t>(terminal.columns, kIndent + 20) - kIndent;
  std::string out;
  for (size_t i = 0; i < std::min(findings.size(), count_max); ++i) {
    const Finding& finding = findings[i];
    const std::string saved =
        finding.gain.saved_ns == 0
            ? ""
            : ": up to " + format_percent(finding.gain.share) + " of the time";
    const auto line = [&](std::string_view label, std::string_view text, Style style) {
      out += styled(label, style, terminal.color);
      out.append(kIndent - label.size(), ' ');
      out += shorten(printable(text), columns) + "\n";
    };
    line(name_of(finding.severity), finding.title + saved, style_of(finding.severity));
    line("", finding.changes.empty() ? finding.threshold : finding.changes.front().text,
         Style::kPlain);
  }
  if (findings.size() > count_max) {
    out += fmt::format("and {} more: millrace advise\n", findings.size() - count_max);
  }
  return out;
}

std::string rules_text(const Terminal& terminal) {
  Table table({{.title = "rule"}, {.title = "what it looks for", .may_shrink = true}});
  for (const Rule& rule : rules()) {
    table.add_row({std::string(rule.name), std::string(rule.summary)});
  }
  return table.render(terminal);
}

}  // namespace millrace::advise
