#include <algorithm>
#include <cmath>

#include "report/compare_scale.h"

namespace millrace::report {
namespace {

bool is_worse(Change change) { return change == Change::kSlower || change == Change::kMore; }

}  // namespace

bool Judge::differs(Pair pair) const {
  // A change of exactly the threshold counts; the factor absorbs rounding errors.
  return std::fabs(pair.rise()) >= options_.threshold * pair.before * (1 - 1e-9) &&
         pair.rise() != 0;
}

double Judge::time_floor_ns() const {
  return std::max(kTimeFloorNs, kTimeFloorShare * static_cast<double>(after_.profile.job.wall_ns));
}

void Judge::time(const Subject& subject, std::string measure, Pair ns, double times,
                 double exposed) {
  const double whole_rise_ns = ns.rise() * times;
  if (!differs(ns) || std::fabs(whole_rise_ns) < time_floor_ns()) return;
  add(subject, std::move(measure), Quantity::kTime, ns, whole_rise_ns * exposed);
}

void Judge::quantile(const Subject& subject, std::string measure, Pair ns, double times,
                     double exposed) {
  if (std::fabs(ns.rise()) >= kQuantileFloorNs) {
    time(subject, std::move(measure), ns, times, exposed);
  }
}

void Judge::amount(const Subject& subject, std::string measure, Quantity quantity, Pair per_unit) {
  const double floor = quantity == Quantity::kBytes ? kBytesFloor : kCountFloor;
  if (!differs(per_unit) || std::fabs(per_unit.rise()) * after_.work_units < floor) return;
  add(subject, std::move(measure), quantity, per_unit, 0);
}

void Judge::size(const Subject& subject, std::string measure, Pair bytes, double count) {
  // Neither larger nor smaller is worse in itself.
  Subject unjudged = subject;
  unjudged.judged = false;
  if (!differs(bytes) || std::fabs(bytes.rise()) * count < kBytesFloor) return;
  add(unjudged, std::move(measure), Quantity::kBytes, bytes, 0);
}

void Judge::appearance(const Subject& subject, Change change, double ns, double exposed,
                       double count) {
  const bool is_new = change == Change::kNew;
  const double whole_ns = ns * after_.units;
  if (whole_ns < time_floor_ns() && count < kCountFloor) return;
  // Never a regression itself: it may replace something else, and if it does not, the job or layer
  // that contains it shows the regression.
  out_.push_back({.by = subject.by,
                  .name = subject.name,
                  .measure = "time",
                  .quantity = Quantity::kTime,
                  .change = change,
                  .before = is_new ? 0 : ns,
                  .after = is_new ? ns : 0,
                  .effect_ns = (is_new ? whole_ns : -whole_ns) * exposed,
                  .minor = subject.minor});
}

void Judge::add(const Subject& subject, std::string measure, Quantity quantity, Pair pair,
                double effect_ns) {
  const bool rises = pair.rise() > 0;
  const bool timed = quantity == Quantity::kTime;
  const Change change = timed ? (rises ? Change::kSlower : Change::kFaster)
                              : (rises ? Change::kMore : Change::kFewer);
  const double regression_floor_ns = std::max(
      kRegressionFloorNs, kRegressionShare * static_cast<double>(after_.profile.job.wall_ns));
  const bool costs = timed && effect_ns >= regression_floor_ns;
  out_.push_back({.by = subject.by,
                  .name = subject.name,
                  .measure = std::move(measure),
                  .quantity = quantity,
                  .change = change,
                  .before = pair.before,
                  .after = pair.after,
                  .effect_ns = effect_ns,
                  .regression = subject.judged && is_worse(change) && (costs || options_.strict),
                  .minor = subject.minor});
}

}  // namespace millrace::report
