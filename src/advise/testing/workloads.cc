#include "advise/testing/workloads.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "advise/findings_json.h"
#include "advise/verdict.h"
#include "analyze/profile/profile_json.h"
#include "analyze/profile/profile_read.h"
#include "base/numbers/random.h"

namespace millrace::advise {
namespace {

// What `millrace advise --json` prints.
std::string advice(const analyze::Profile& profile, const Machine& machine) {
  const std::vector<Finding> findings = advise(profile, machine);
  return findings_json(verdict_of(profile, findings), findings, machine);
}

}  // namespace

void Hand::open(const std::string& file, uint64_t size, nanoseconds takes, uint32_t flags) {
  program_.open(file, {.at = now, .takes = takes, .detail = flags, .thread = thread_});
  now += takes;
  call(wire::Call::kFstat, file, 1us, size);
}

void Hand::read(const std::string& file, uint64_t offset, uint64_t size, nanoseconds takes) {
  program_.read(file,
                {.at = now, .takes = takes, .offset = offset, .size = size, .thread = thread_});
  now += takes;
}

void Hand::write(const std::string& file, uint64_t offset, uint64_t size, nanoseconds takes) {
  program_.write(file,
                 {.at = now, .takes = takes, .offset = offset, .size = size, .thread = thread_});
  now += takes;
}

void Hand::transfer(wire::Call call, const std::string& file, uint64_t size, nanoseconds takes,
                    uint64_t offset) {
  program_.call(call, file,
                {.at = now, .takes = takes, .offset = offset, .size = size, .thread = thread_});
  now += takes;
}

void Hand::close(const std::string& file) {
  program_.close(file, {.at = now, .takes = 2us, .thread = thread_});
  now += 2us;
}

void Hand::call(wire::Call call, const std::string& file, nanoseconds takes, uint64_t size) {
  program_.call(call, file,
                {.at = now, .takes = takes, .size = size, .result = 0, .thread = thread_});
  now += takes;
}

void Hand::region(std::string_view name, nanoseconds takes) {
  program_.region(name, {.at = now, .takes = takes, .thread = thread_});
  now += takes;
}

void Hand::read_file(const std::string& file, const FileRead& how) {
  open(file, how.size, how.opening, how.flags);
  const uint64_t piece = how.piece == 0 ? how.size : how.piece;
  for (uint64_t at = 0; at < how.size; at += piece) {
    read(file, at, std::min(piece, how.size - at), how.takes);
  }
  close(file);
}

Hand& Team::next() {
  return *std::min_element(hands_.begin(), hands_.end(),
                           [](const Hand& a, const Hand& b) { return a.now < b.now; });
}

nanoseconds Team::end() const {
  return std::max_element(hands_.begin(), hands_.end(),
                          [](const Hand& a, const Hand& b) { return a.now < b.now; })
      ->now;
}

void Rank::mark(std::string_view name, nanoseconds begin, nanoseconds end) {
  if (end <= begin) return;
  program_.region(name, {.at = begin, .takes = end - begin, .epoch = epoch_, .step = step_});
}

void Rank::epoch(int64_t number, const std::function<void()>& work) {
  epoch_ = number;
  step_ = -1;
  const nanoseconds begin = main.now;
  work();
  step_ = -1;
  mark("epoch", begin, main.now);
  epoch_ = -1;
}

void Rank::batch(const Batch& batch, const std::function<void(Team&)>& work) {
  ++step_;
  std::vector<Hand> hands;
  for (uint32_t i = 0; i < batch.readers; ++i) hands.emplace_back(program_, i + 1, main.now);
  Team team(std::move(hands));
  work(team);
  if (batch.prefetch) {
    compute(batch.compute);
    mark("batch_wait", main.now, team.end());
    main.now = std::max(main.now, team.end());
  } else {
    mark("batch_wait", main.now, team.end());
    main.now = std::max(main.now, team.end());
    compute(batch.compute);
  }
}

void Rank::compute(nanoseconds takes) {
  mark("compute", main.now, main.now + takes);
  main.now += takes;
}

void Rank::within(std::string_view name, const std::function<void()>& work) {
  const nanoseconds begin = main.now;
  work();
  mark(name, begin, main.now);
}

JobSketch::JobSketch(uint32_t ranks, uint32_t hosts)
    : directory_(*TemporaryDirectory::create()),
      builder_((directory_.path() / "job.mrt").string()) {
  for (uint32_t i = 0; i < ranks; ++i) {
    analyze::ProgramSpec spec;
    if (ranks > 1) {
      spec.rank = static_cast<int32_t>(i);
      spec.world_size = static_cast<int32_t>(ranks);
    }
    spec.host = fmt::format("node{}", 1 + i * hosts / ranks);
    ranks_.emplace_back(builder_.program(spec), i);
  }
}

void JobSketch::import(const std::string& framework) {
  const std::string file = "/usr/lib/python3/dist-packages/" + framework + "/__init__.py";
  rank().main.read_file(file, {.size = 1000, .takes = 10us});
}

analyze::Profile JobSketch::profile() {
  const trace::Trace trace = builder_.finish();
  return analyze::profile_of(trace);
}

std::vector<std::string> rules_found(const analyze::Profile& profile, const Machine& machine) {
  const auto saved = analyze::parse_profile(analyze::profile_json(profile), "saved profile");
  if (saved.ok()) {
    EXPECT_EQ(advice(profile, machine), advice(*saved, machine));
  } else {
    ADD_FAILURE() << saved.error().message();
  }
  std::vector<std::string> names;
  for (const Finding& finding : advise(profile, machine)) {
    names.push_back(finding.rule);
    for (const Finding& other : finding.also) names.push_back(other.rule);
  }
  return names;
}

std::string change_for(const Finding& finding, std::string_view framework) {
  for (const Change& change : finding.changes) {
    if (change.framework == framework) return change.text;
  }
  return "";
}

std::vector<uint64_t> shuffled(uint64_t count, uint64_t seed) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  Random random(seed);
  for (uint64_t i = count; i > 1; --i) std::swap(numbers[i - 1], numbers[random.below(i)]);
  return numbers;
}

}  // namespace millrace::advise
