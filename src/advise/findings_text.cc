#include "advise/findings_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "advise/wording.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"

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

std::string part(const Gain& gain) { return part_text(gain.share, gain.of_training); }

// "saves up to 12.5 s, 31.0 %"
std::string saving(const Gain& gain, const std::string& share) {
  return fmt::format("saves up to {}, {}",
                     format_duration(std::chrono::nanoseconds(static_cast<int64_t>(gain.saved_ns))),
                     share);
}

// "saves up to 12.5 s, 31.0 % of training time: half of the waiting"
std::string gain_text(const Finding& finding) {
  const Gain& gain = finding.gain;
  const std::string how = gain.how.empty() ? "" : ": " + gain.how;
  if (gain.saved_ns > 0) return saving(gain, part(gain)) + how;
  // A note costs nothing; its gain says why.
  if (finding.severity == Severity::kNote && !gain.how.empty()) return gain.how;
  return "cannot be estimated" + how;
}

// "millrace store would save 1.2 s, 3.0 % of training time: 7,000 calls on ..."
std::string tried_text(const Gain& tried) {
  if (tried.saved_ns == 0) return "millrace store would save nothing: " + tried.how;
  return fmt::format(
      "millrace store would save {}, {}: {}",
      format_duration(std::chrono::nanoseconds(static_cast<int64_t>(tried.saved_ns))), part(tried),
      tried.how);
}

// The finding itself and the other ways to save the same seconds, largest gain first.
std::vector<const Finding*> ways_of(const Finding& finding) {
  std::vector<const Finding*> ways = {&finding};
  for (const Finding& other : finding.also) ways.push_back(&other);
  std::stable_sort(ways.begin(), ways.end(), [](const Finding* a, const Finding* b) {
    return a->gain.saved_ns > b->gain.saved_ns;
  });
  return ways;
}

// The finding's own changes come right below its title; other ways have a title of their own.
void add_way(std::string& out, const Finding& way, std::string_view label,
             const Terminal& terminal) {
  if (!label.empty()) {
    add(out, label, fmt::format("{} ({}): {}", way.title(), way.rule, gain_text(way)), terminal);
  }
  for (const Change& change : way.changes) {
    add(out, change.framework == "any" ? "  do" : "  " + change.framework, change.text, terminal);
  }
  if (label.empty()) add(out, "  gain", gain_text(way), terminal);
  if (way.tried) add(out, "  tried", tried_text(*way.tried), terminal);
}

void add_finding(std::string& out, const Finding& finding, const Terminal& terminal) {
  add(out, name_of(finding.severity), fmt::format("{} ({})", finding.title(), finding.rule),
      terminal, style_of(finding.severity));
  const std::vector<const Finding*> ways = ways_of(finding);
  for (const Finding* way : ways) {
    const std::string_view first = way == &finding ? "" : "  first";
    add_way(out, *way, way == ways.front() ? first : "  or", terminal);
  }
  for (const Evidence& evidence : finding.evidence) {
    add(out, "  seen", fmt::format("{} [{}]", evidence.text, evidence.where), terminal);
  }
  add(out, "  limit", finding.threshold, terminal);
}

// "saves up to 12.5 s, 31.0 %: open(path, 'rb', buf..."; only the change is cut.
std::string saving_and_change(const Finding& finding, size_t columns) {
  const std::string change =
      printable(finding.changes.empty() ? finding.threshold : finding.changes.front().text);
  if (finding.gain.saved_ns == 0) return shorten(change, columns);
  constexpr size_t kChangeMin = 10;  // columns; less would say nothing
  const std::string saved = saving(finding.gain, format_percent(finding.gain.share));
  const size_t taken = display_width(saved) + 2;
  return taken + kChangeMin > columns ? saved : saved + ": " + shorten(change, columns - taken);
}

std::string unknowns(const Machine& machine) {
  std::vector<std::string> unknown;
  if (!machine.cores) unknown.emplace_back("cores of the hosts (--cores)");
  if (!machine.memory_bytes) unknown.emplace_back("memory of the hosts (--memory)");
  if (!machine.local_disk_bytes) unknown.emplace_back("free space on local disks (--local-disk)");
  if (machine.data_storage == Storage::kUnknown) {
    unknown.emplace_back("storage of the data (--data-storage)");
  }
  return join(unknown, ", ");
}

}  // namespace

std::string findings_text(const Verdict& verdict, const std::vector<Finding>& findings,
                          const Machine& machine, const Terminal& terminal) {
  std::string out;
  for (const std::string& line : wrap(printable(verdict.sentence), terminal.columns)) {
    out += styled(line, Style::kBold, terminal.color) + "\n";
  }
  if (findings.empty()) out += kNothing;
  for (const Finding& finding : findings) {
    out += "\n";
    add_finding(out, finding, terminal);
  }
  if (const std::string unknown = unknowns(machine); !unknown.empty()) {
    out += "\n";
    add(out, "unknown", unknown + ": rules that need these were skipped, or know less", terminal);
  }
  return out;
}

std::string findings_brief(const std::vector<Finding>& findings, size_t count_max,
                           const Terminal& terminal) {
  if (findings.empty()) return std::string(kNothing);
  const size_t columns = std::max<size_t>(terminal.columns, kIndent + 20) - kIndent;
  std::string out;
  for (size_t i = 0; i < std::min(findings.size(), count_max); ++i) {
    const std::string_view severity = name_of(findings[i].severity);
    out += styled(severity, style_of(findings[i].severity), terminal.color);
    out.append(kIndent - severity.size(), ' ');
    out += shorten(printable(findings[i].title()), columns) + "\n";
    out.append(kIndent, ' ');
    out += saving_and_change(*ways_of(findings[i]).front(), columns) + "\n";
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
