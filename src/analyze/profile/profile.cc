#include "analyze/profile/profile.h"

#include <algorithm>

namespace millrace::analyze {
namespace {

constexpr auto kAdd = [](const Field&, uint64_t& sum, const uint64_t& value) { sum += value; };

}  // namespace

IoTotals& operator+=(IoTotals& totals, const IoTotals& other) {
  const uint64_t first_ns = std::min(totals.first_ns, other.first_ns);
  const uint64_t last_ns = std::max(totals.last_ns, other.last_ns);
  visit_fields(kAdd, totals, other);
  totals.first_ns = first_ns;
  totals.last_ns = last_ns;
  return totals;
}

AccessCounts& operator+=(AccessCounts& counts, const AccessCounts& other) {
  visit_fields(kAdd, counts, other);
  return counts;
}

}  // namespace millrace::analyze
