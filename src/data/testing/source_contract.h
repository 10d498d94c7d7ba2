// The contract of SampleSource: clauses that every implementation must pass.
//
// A test provides a source and its expected samples. Each clause returns what the source violates.
// Linked only into tests.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/source.h"

namespace millrace::data {

struct SourceUnderTest {
  std::shared_ptr<const SampleSource> source;  // shared with the test
  std::vector<std::string> samples;            // the expected bytes of each
};

struct SourceClause {
  std::string_view name;
  Status (*check)(const SourceUnderTest& test);
};

std::span<const SourceClause> source_contract();

// Checks all clauses. The error starts with the name of the first violated clause.
Status check_source(const SourceUnderTest& test);

}  // namespace millrace::data
