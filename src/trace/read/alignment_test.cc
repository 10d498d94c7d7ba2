#include "trace/read/alignment.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::trace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kEpoch = 1'700'000'000 * kSecond;

// A host whose clocks are known functions of the true time: its monotonic clock started `boot_ns`
// ago and runs fast by `drift`; its wall clock is wrong by `wall_error_ns`.
struct Host {
  std::string name;
  int64_t boot_ns = 0;
  double drift = 0;
  int64_t wall_error_ns = 0;

  int64_t monotonic(int64_t true_ns) const {
    return boot_ns + true_ns + static_cast<int64_t>(drift * static_cast<double>(true_ns));
  }
  wire::ClockSample sample(int64_t true_ns, uint64_t uncertainty_ns = 100) const {
    return {0, static_cast<uint64_t>(monotonic(true_ns)), kEpoch + true_ns + wall_error_ns,
            uncertainty_ns};
  }
  SessionEntry session(int64_t from_ns, int64_t to_ns) const {
    SessionEntry entry;
    entry.session.host = name;
    entry.session.boot_id = name;
    entry.clock = {.known = true, .counter = {}, .first = sample(from_ns), .last = sample(to_ns)};
    return entry;
  }
  // The session's time of an event that happened at `true_ns`.
  int64_t event(const SessionEntry& entry, int64_t true_ns) const {
    return monotonic(true_ns) - static_cast<int64_t>(entry.clock.first.monotonic_ns);
  }
};

ProcessEntry rank(int32_t number) {
  ProcessEntry entry;
  entry.process.rank = number;
  return entry;
}

TEST(Alignment, OneHostNeedsNoAlignment) {
  const Host host{"a", 50 * kSecond, 0, 0};
  SessionEntry first = host.session(0, 10 * kSecond);
  SessionEntry second = host.session(2 * kSecond, 9 * kSecond);
  const Alignment aligned = align_sessions({{&first, 0, {}}, {&second, 0, {}}});
  EXPECT_EQ(first.session.alignment, "one host");
  EXPECT_EQ(second.session.alignment, "one host");
  EXPECT_TRUE(aligned.maps[0].is_shift());
  EXPECT_EQ(aligned.maps[0].apply(host.event(first, 5 * kSecond)), 5 * kSecond);
  EXPECT_EQ(aligned.maps[1].apply(host.event(second, 5 * kSecond)), 5 * kSecond);
  EXPECT_EQ(aligned.origin_wall_ns, kEpoch);
}

TEST(Alignment, WallClocksAlignHostsDespiteSkewAndDrift) {
  const Host a{"a", 50 * kSecond, 0, 0};
  const Host b{"b", 9000 * kSecond, 40e-6, 0};
  SessionEntry of_a = a.session(0, 100 * kSecond);
  SessionEntry of_b = b.session(kSecond, 101 * kSecond);
  const Alignment aligned = align_sessions({{&of_a, 0, {}}, {&of_b, 0, {}}});
  for (const int64_t when : {2 * kSecond, 50 * kSecond, 99 * kSecond}) {
    const int64_t at_a = aligned.maps[0].apply(a.event(of_a, when));
    const int64_t at_b = aligned.maps[1].apply(b.event(of_b, when));
    EXPECT_LE(std::abs(at_a - at_b), 20) << when;
  }
  EXPECT_EQ(of_a.session.alignment, "reference host");
  EXPECT_EQ(of_b.session.alignment, "wall clock");
  EXPECT_NEAR(of_b.session.drift_ppm, -40, 0.1);
  EXPECT_EQ(of_b.session.uncertainty_ns, 200u);
}

TEST(Alignment, MpiIsUsedInsteadOfAWrongWallClock) {
  const Host a{"a", 50 * kSecond, 0, 0};
  const Host b{"b", 9000 * kSecond, -25e-6, 3'000'000};  // its wall clock is 3 ms ahead
  SessionEntry of_a = a.session(0, 100 * kSecond);
  SessionEntry of_b = b.session(0, 100 * kSecond);
  const ProcessEntry rank_0 = rank(0);
  ProcessEntry rank_1 = rank(1);
  for (const auto& [i, when] : {std::pair<size_t, int64_t>{0, kSecond}, {1, 90 * kSecond}}) {
    rank_1.peer[i] = {.offset_ns = a.monotonic(when) - b.monotonic(when),
                      .uncertainty_ns = 700,
                      .at_ns = static_cast<uint64_t>(b.monotonic(when))};
  }
  const Alignment aligned = align_sessions({{&of_b, 0, {&rank_1}}, {&of_a, 0, {&rank_0}}});
  for (const int64_t when : {2 * kSecond, 50 * kSecond, 99 * kSecond}) {
    const int64_t at_a = aligned.maps[1].apply(a.event(of_a, when));
    const int64_t at_b = aligned.maps[0].apply(b.event(of_b, when));
    EXPECT_LE(std::abs(at_a - at_b), 20) << when;
  }
  EXPECT_EQ(of_b.session.alignment, "MPI");
  EXPECT_EQ(of_b.session.uncertainty_ns, 700u);
  EXPECT_NEAR(static_cast<double>(of_b.session.offset_ns), 3e6, 10);
  EXPECT_NEAR(of_b.session.drift_ppm, 25, 0.1);
  EXPECT_NEAR(static_cast<double>(aligned.origin_wall_ns - kEpoch), 0, 10);
}

TEST(Alignment, SettingTheWallClockIsUncertaintyNotDrift) {
  const Host a{"a", 50 * kSecond, 0, 0};
  const Host b{"b", 70 * kSecond, 0, 0};
  SessionEntry of_a = a.session(0, 10 * kSecond);
  SessionEntry of_b = b.session(0, 10 * kSecond);
  of_b.clock.first.wall_ns += 2 * kSecond;  // set back by 2 s during these 10 s
  const Alignment aligned = align_sessions({{&of_a, 0, {}}, {&of_b, 0, {}}});
  EXPECT_LE(std::abs(aligned.maps[1].apply(b.event(of_b, 9 * kSecond)) -
                     aligned.maps[0].apply(a.event(of_a, 9 * kSecond))),
            20);
  EXPECT_GT(of_b.session.uncertainty_ns, 1'999'000'000u);
  EXPECT_TRUE(aligned.maps[1].is_shift());
}

TEST(Alignment, ImportedSessionsCountFromTheirFilesOrigin) {
  SessionEntry early;
  SessionEntry late;
  const Alignment aligned =
      align_sessions({{&late, kEpoch + 5 * kSecond, {}}, {&early, kEpoch, {}}});
  EXPECT_EQ(aligned.origin_wall_ns, kEpoch);
  EXPECT_EQ(aligned.maps[0].apply(7), 5 * kSecond + 7);
  EXPECT_EQ(aligned.maps[1].apply(7), 7);
}

}  // namespace
}  // namespace millrace::trace
