// percentile(X, P): missing in SQL, but needed to study durations.
//
// Defined as in SQLite's own extension of that name: of n sorted values, the one at P % of the way
// from the first to the last, interpolated linearly between neighbors. NULLs are ignored.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "query/virtual_tables.h"

namespace millrace::query {
namespace {

struct Gathered {
  std::vector<double> values;
  double percent = 0;
};

// A pointer, because SQLite provides zeroed memory for the state of a group and runs no destructor.
void step(sqlite3_context* context, int, sqlite3_value** arguments) noexcept {
  auto** held = static_cast<Gathered**>(sqlite3_aggregate_context(context, sizeof(Gathered*)));
  if (held == nullptr) return sqlite3_result_error_nomem(context);
  const int type = sqlite3_value_numeric_type(arguments[1]);
  const double percent = sqlite3_value_double(arguments[1]);
  const bool is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
  if (!is_number || percent < 0 || percent > 100) {
    return sqlite3_result_error(context, "percentile(X, P) needs a P from 0 to 100", -1);
  }
  if (*held == nullptr) *held = new Gathered{.values = {}, .percent = percent};
  if ((*held)->percent != percent) {
    return sqlite3_result_error(context, "percentile(X, P) needs the same P for all rows", -1);
  }
  const int value_type = sqlite3_value_numeric_type(arguments[0]);
  if (value_type == SQLITE_NULL) return;
  if (value_type != SQLITE_INTEGER && value_type != SQLITE_FLOAT) {
    return sqlite3_result_error(context, "percentile(X, P) needs numbers", -1);
  }
  (*held)->values.push_back(sqlite3_value_double(arguments[0]));
}

void finish(sqlite3_context* context) noexcept {
  auto** held = static_cast<Gathered**>(sqlite3_aggregate_context(context, 0));
  if (held == nullptr || *held == nullptr) return;
  const std::unique_ptr<Gathered> gathered(*held);
  std::vector<double>& values = gathered->values;
  if (values.empty()) return;
  const double place = gathered->percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<ptrdiff_t>(std::floor(place));
  std::nth_element(values.begin(), below, values.end());
  const double rest = place - std::floor(place);
  double result = *below;
  if (rest > 0) result += rest * (*std::min_element(below + 1, values.end()) - result);
  sqlite3_result_double(context, result);
}

}  // namespace

int register_functions(sqlite3* connection) {
  return sqlite3_create_function_v2(connection, "percentile", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                    nullptr, nullptr, step, finish, nullptr);
}

}  // namespace millrace::query
