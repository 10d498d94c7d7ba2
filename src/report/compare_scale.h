// compare_scale: two jobs on one scale, and the judge of their differences. Private to compare*.cc.
#pragma once

#include <string>
#include <vector>

#include "analyze/profile/profile.h"
#include "report/compare.h"

namespace millrace::report {

// One job, measured in units of work.
struct Side {
  Side(const analyze::Profile& of, Per per);

  const analyze::Profile& profile;
  double ranks = 1;
  double units = 1;       // of work per rank: divides times
  double work_units = 1;  // of work of all ranks: divides counts and bytes

  // Converts sums over all ranks: time() per rank and unit, amount() per unit.
  double time(double sum_ns) const { return sum_ns / ranks / units; }
  double amount(double sum) const { return sum / work_units; }
};

// A value on both sides.
struct Pair {
  double before = 0;
  double after = 0;

  double rise() const { return after - before; }
};

// What a difference is about, and whether it may be a regression.
struct Subject {
  By by{};
  std::string name;
  bool judged = true;
  bool minor = false;
};

// Decides what is a difference or a regression, and collects them.
class Judge {
 public:
  Judge(const Side& before, const Side& after, const CompareOptions& options,
        std::vector<Difference>& out)
      : before_(before), after_(after), options_(options), out_(out) {}

  const Side& before() const { return before_; }
  const Side& after() const { return after_; }
  double threshold() const { return options_.threshold; }

  // A time that occurs `times` times in the later job. `exposed` is the share of the change that
  // does not overlap with compute.
  void time(const Subject& subject, std::string measure, Pair ns, double times, double exposed = 1);

  // A quantile that represents `times` durations of the later job.
  void quantile(const Subject& subject, std::string measure, Pair ns, double times,
                double exposed = 1);

  // An amount per unit.
  void amount(const Subject& subject, std::string measure, Quantity quantity, Pair per_unit);

  // The size of a call; the later job has `count` calls.
  void size(const Subject& subject, std::string measure, Pair bytes, double count);

  // Something that exists on one side only: kNew or kGone. `ns` is per rank and unit, `count` is
  // the number of calls in that job.
  void appearance(const Subject& subject, Change change, double ns, double exposed, double count);

  // The smallest change of a time, summed over the later job, that counts.
  double time_floor_ns() const;

  // Whether the change reaches the threshold.
  bool differs(Pair pair) const;

 private:
  void add(const Subject& subject, std::string measure, Quantity quantity, Pair pair,
           double effect_ns);

  const Side& before_;
  const Side& after_;
  const CompareOptions& options_;
  std::vector<Difference>& out_;
};

// One function per dimension.
void compare_job(Judge& judge);
void compare_layers(Judge& judge, bool judged);
void compare_functions(Judge& judge, bool judged);
void compare_kinds(Judge& judge, bool judged);
void compare_ranks(Judge& judge, bool judged);
void compare_epochs(Judge& judge);

// Steps of one rank; 0: unknown.
double steps_of_rank(const analyze::Profile& profile);

}  // namespace millrace::report
