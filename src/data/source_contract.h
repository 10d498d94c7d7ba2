// The contract of SampleSource as clauses that every implementation is held to, written once.
//
// A test makes a source and says what its samples are; each clause returns what was broken. Linked
// into tests alone.
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
  std::vector<std::string> samples;            // the bytes each should have
};

struct SourceClause {
  std::string_view name;
  Status (*check)(const SourceUnderTest& test);
};

std::span<const SourceClause> source_contract();

// All of them; the error of the first that is broken begins with its name.
Status check_source(const SourceUnderTest& test);

}  // namespace millrace::data
