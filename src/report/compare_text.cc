#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "report/compare.h"
#include "report/compare_view.h"

namespace millrace::report {
namespace {

std::string duration(double ns) {
  return format_duration(std::chrono::nanoseconds(std::llround(std::clamp(ns, -9e18, 9e18))));
}

std::string amount(const Difference& one, double value) {
  switch (one.quantity) {
    case Quantity::kTime:
      return duration(value);
    case Quantity::kBytes:
      return format_bytes(static_cast<uint64_t>(std::llround(std::clamp(value, 0.0, 9e18))));
    case Quantity::kCount:
      break;
  }
  return format_count(value);
}

std::string relative(const Difference& one) {
  const auto by = one.relative();
  if (!by || one.change == Change::kGone) return "";
  // From a factor of ten on, a factor is easier to read.
  if (*by >= 9) return fmt::format("x {}", format_count(*by + 1));
  return (*by < 0 ? "-" : "+") + format_percent(std::fabs(*by));
}

std::string heading(const Difference& first, double effect_ns, double wall_ns, size_t columns) {
  // The text after the name is never longer than this.
  constexpr size_t kEffectColumns = 44;
  const bool named = first.by == By::kJob || first.by == By::kRank || first.by == By::kEpoch;
  const std::string name = printable(first.name);
  const std::string subject =
      shorten(named ? name : fmt::format("{} {}", kByNames[static_cast<size_t>(first.by)], name),
              std::max(columns, kEffectColumns + 20) - kEffectColumns);
  // Less than a tenth of the regression floor is not worth showing.
  if (std::fabs(effect_ns) < kRegressionFloorNs / 10 || wall_ns <= 0) return subject;
  // Time that was saved is not part of the wall time, so add it: a job cannot save more than all.
  const double whole_ns = wall_ns + std::max(-effect_ns, 0.0);
  return fmt::format("{}: {}{} of the wall time ({})", subject, effect_ns < 0 ? "-" : "+",
                     duration(std::fabs(effect_ns)),
                     format_percent(std::fabs(effect_ns) / whole_ns));
}

Style style_of(const Difference& one) {
  if (one.regression) return Style::kBad;
  return one.change == Change::kFaster || one.change == Change::kGone ? Style::kGood
                                                                      : Style::kPlain;
}

void add_row(Table& table, const Difference& one) {
  const std::string change(kChangeNames[static_cast<size_t>(one.change)]);
  const bool is_new = one.change == Change::kNew;
  const bool is_gone = one.change == Change::kGone;
  table.add_row({one.regression ? "  !" : "   ", one.measure,
                 is_new ? "-" : amount(one, one.before), is_gone ? "-" : amount(one, one.after),
                 relative(one), Table::Cell(change, style_of(one))});
}

// One row per measure. To align the columns of all subjects, renders one table and inserts the
// headings afterwards.
std::string subjects_text(const std::vector<std::vector<Difference>>& subjects, double wall_ns,
                          const Terminal& terminal) {
  using Align = Table::Align;
  Table table({{.title = ""},
               {.title = "", .may_shrink = true},
               {.title = "before", .align = Align::kRight},
               {.title = "after", .align = Align::kRight},
               {.title = "change", .align = Align::kRight},
               {.title = ""}});
  for (const auto& subject : subjects) {
    for (const Difference& one : subject) add_row(table, one);
  }
  const std::string rows = table.render(terminal);
  size_t at = rows.find('\n') + 1;
  std::string out = rows.substr(0, at);
  for (const auto& subject : subjects) {
    double effect_ns = 0;
    for (const Difference& one : subject) {
      if (std::fabs(one.effect_ns) > std::fabs(effect_ns)) effect_ns = one.effect_ns;
    }
    out += heading(subject.front(), effect_ns, wall_ns, terminal.columns) + "\n";
    for (size_t row = 0; row < subject.size(); ++row) {
      const size_t end = rows.find('\n', at) + 1;
      out += rows.substr(at, end - at);
      at = end;
    }
  }
  return out;
}

std::string jobs_text(const Comparison& comparison, const Terminal& terminal) {
  using Align = Table::Align;
  Table table({{.title = ""},
               {.title = "job", .may_shrink = true},
               {.title = "hosts", .align = Align::kRight},
               {.title = "ranks", .align = Align::kRight},
               {.title = "epochs", .align = Align::kRight},
               {.title = "steps", .align = Align::kRight},
               {.title = "wall time", .align = Align::kRight},
               {.title = "waiting", .align = Align::kRight}});
  for (const auto& [title, job] :
       {std::pair{"before", &comparison.before}, std::pair{"after", &comparison.after}}) {
    table.add_row({title, printable(job->name), fmt::format("{}", job->hosts),
                   fmt::format("{}", job->ranks),
                   job->epochs == 0 ? "-" : format_exact(job->epochs),
                   job->steps == 0 ? "-" : format_count(job->steps),
                   duration(static_cast<double>(job->wall_ns)), format_percent(job->wait_share)});
  }
  return table.render(terminal);
}

std::string_view scale_sentence(Per per) {
  switch (per) {
    case Per::kStep:
      return "Times are per rank and step, counts and bytes per step";
    case Per::kEpoch:
      return "Times are per rank and epoch, counts and bytes per epoch";
    case Per::kGigabyte:
      return "Times (per rank), counts and bytes (of all ranks) are per gigabyte of data read";
    case Per::kJob:
      break;
  }
  return "Times are per rank, counts and bytes of all ranks, in the whole job";
}

std::string wrapped(const std::string& text, size_t columns) {
  std::string out;
  for (const std::string& line : wrap(text, columns)) out += line + "\n";
  return out;
}

std::string verdict(const Comparison& comparison,
                    const std::vector<std::vector<Difference>>& shown) {
  const size_t count = comparison.regression_count();
  size_t not_shown = count;
  for (const auto& subject : shown) {
    for (const Difference& one : subject) not_shown -= one.regression ? 1 : 0;
  }
  if (count != 0) {
    return fmt::format("{} regression{}, {}", count, count == 1 ? "" : "s",
                       not_shown == 0
                           ? "marked with !"
                           : fmt::format("{} not shown with this --by or --top", not_shown));
  }
  if (comparison.differences.empty()) {
    return fmt::format("no difference of {} or more", format_percent(comparison.threshold));
  }
  return "no regression";
}

}  // namespace

std::string compare_text(const Comparison& comparison, const CompareView& view,
                         const Terminal& terminal) {
  std::string out = jobs_text(comparison, terminal) + "\n";
  out += wrapped(fmt::format("{}. Differences under {} are not shown.",
                             scale_sentence(comparison.per), format_percent(comparison.threshold)),
                 terminal.columns);
  for (const std::string& note : comparison.notes) {
    out += wrapped("note: " + note, terminal.columns);
  }
  auto subjects = subjects_of(comparison, view.by);
  const size_t all = subjects.size();
  if (view.top != 0 && all > view.top) subjects.resize(view.top);
  if (!subjects.empty()) {
    out += "\n" + subjects_text(subjects, static_cast<double>(comparison.after.wall_ns), terminal);
  }
  if (subjects.size() < all) {
    out += fmt::format("{} more with smaller effects; --top 0 shows all\n", all - subjects.size());
  }
  const bool bad = comparison.regression_count() != 0;
  return out + "\n" +
         styled(verdict(comparison, subjects), bad ? Style::kBad : Style::kGood, terminal.color) +
         "\n";
}

}  // namespace millrace::report
