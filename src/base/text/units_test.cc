#include "base/text/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(ParseBytes, AcceptsBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("4096"), 4096u);
  EXPECT_EQ(*parse_bytes("64KiB"), 65536u);
  EXPECT_EQ(*parse_bytes("64kB"), 64000u);
  EXPECT_EQ(*parse_bytes("64KB"), 64000u);
  EXPECT_EQ(*parse_bytes("1.5GB"), 1'500'000'000u);
  EXPECT_EQ(*parse_bytes("1.5GiB"), 1'610'612'736u);
  EXPECT_EQ(*parse_bytes(" 2 TiB "), 2'199'023'255'552u);
  EXPECT_EQ(*parse_bytes("0.1KiB"), 102u);  // nearest byte
}

TEST(ParseBytes, RefusesAmbiguousUnits) {
  EXPECT_THAT(parse_bytes("64K").error().message(),
              "'64K' could mean KiB (powers of 1024) or kB (powers of 1000); write which");
  EXPECT_THAT(parse_bytes("64M").error().message(), HasSubstr("MiB (powers of 1024) or MB"));
  EXPECT_THAT(parse_bytes("1.5").error().message(), HasSubstr("has no unit"));
}

TEST(ParseBytes, RefusesWhatIsNotASize) {
  for (const char* text : {"", " ", "KiB", "-1", "1e9", "1..5KB", "64kib", "1 0KB", "0x10",
                           "1.5.2MB", "1234567890123456789", "9PiBB", "."}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
  EXPECT_THAT(parse_bytes("99999PB").error().message(), HasSubstr("more than 8 EiB"));
}

TEST(ParseDuration, AcceptsTheUsualUnits) {
  EXPECT_EQ(*parse_duration("250us"), 250us);
  EXPECT_EQ(*parse_duration("250\u00b5s"), 250us);
  EXPECT_EQ(*parse_duration("1.5 ms"), 1500us);
  EXPECT_EQ(*parse_duration("2s"), 2s);
  EXPECT_EQ(*parse_duration("10min"), 10min);
  EXPECT_EQ(*parse_duration("1h"), 1h);
  EXPECT_EQ(*parse_duration("0"), 0s);
}

TEST(ParseDuration, RefusesANumberWithoutAUnit) {
  EXPECT_THAT(parse_duration("5").error().message(),
              "'5' has no unit; use one of ns us ms s min h d");
  EXPECT_THAT(parse_duration("5 parsecs").error().message(), HasSubstr("unknown unit"));
  EXPECT_FALSE(parse_duration("").ok());
  EXPECT_FALSE(parse_duration("-5s").ok());
  EXPECT_THAT(parse_duration("999999999d").error().message(), HasSubstr("292 years"));
}

TEST(FormatBytes, UsesBinaryOrDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(1'572'864), "1.5 MiB");
  EXPECT_EQ(format_bytes(65536, ByteUnits::kDecimal), "65.5 kB");
  EXPECT_EQ(format_bytes(999'999, ByteUnits::kDecimal), "1 MB");
  EXPECT_EQ(format_bytes(~uint64_t{0}), "16 EiB");
}

TEST(FormatBytes, RoundTripsRoundSizes) {
  for (const char* text : {"64 KiB", "1.5 GiB", "512 B"}) {
    EXPECT_EQ(format_bytes(*parse_bytes(text)), text);
  }
}

TEST(FormatDuration, PicksAReadableUnit) {
  EXPECT_EQ(format_duration(0ns), "0 ns");
  EXPECT_EQ(format_duration(250us), "250 us");
  EXPECT_EQ(format_duration(1'234'567ns), "1.23 ms");
  EXPECT_EQ(format_duration(999'700ns), "1 ms");
  EXPECT_EQ(format_duration(12s), "12 s");
  EXPECT_EQ(format_duration(200s), "3 min 20 s");
  EXPECT_EQ(format_duration(2h + 5min), "2 h 05 min");
  EXPECT_EQ(format_duration(-3ms), "-3 ms");
}

TEST(FormatOther, RatesCountsAndShares) {
  EXPECT_EQ(format_bandwidth(1.456e9), "1.46 GB/s");
  EXPECT_EQ(format_count(1'280'000), "1.28 M");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_exact(1'280'000), "1,280,000");
  EXPECT_EQ(format_exact(999), "999");
  EXPECT_EQ(format_percent(0.125), "12.5 %");
  EXPECT_EQ(format_percent(0.0001), "<0.1 %");
  EXPECT_EQ(format_percent(0), "0.0 %");
}

}  // namespace
}  // namespace millrace
