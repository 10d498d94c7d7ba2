#include "base/hash/crc32c.h"

#include <array>
#include <cstring>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace millrace {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

// kTables[k][b]: the checksum register after byte b and then k zero bytes.
constexpr auto make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr auto kTables = make_tables();

uint64_t load64(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Returns the register after the bytes. Callers invert it before and after.
uint32_t extend_by_tables(uint32_t crc, const std::byte* data, size_t size_bytes) {
  for (; size_bytes >= 8; data += 8, size_bytes -= 8) {
    const uint64_t word = load64(data) ^ crc;
    crc = 0;
    for (unsigned k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size_bytes > 0; ++data, --size_bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<uint32_t>(*data)) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#define MILLRACE_CRC_TARGET __attribute__((target("sse4.2")))
MILLRACE_CRC_TARGET inline uint32_t step64(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
}
MILLRACE_CRC_TARGET inline uint32_t step8(uint32_t crc, uint8_t byte) {
  return __builtin_ia32_crc32qi(crc, byte);
}
bool cpu_has_crc() { return __builtin_cpu_supports("sse4.2") != 0; }
constexpr std::string_view kInstructionName = "SSE4.2";
#else
#define MILLRACE_CRC_TARGET __attribute__((target("+crc")))
MILLRACE_CRC_TARGET inline uint32_t step64(uint32_t crc, uint64_t word) {
  return __crc32cd(crc, word);
}
MILLRACE_CRC_TARGET inline uint32_t step8(uint32_t crc, uint8_t byte) {
  return __crc32cb(crc, byte);
}
bool cpu_has_crc() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
constexpr std::string_view kInstructionName = "ARMv8 CRC";
#endif

// The instruction takes three cycles and can start every cycle, so three independent streams keep
// it busy. A stripe is what one stream reads before the three registers are combined.
constexpr size_t kStripeBytes = 1024;

// The effect of a run of zero bytes on the register. The register is linear in its bits, so one
// table for each of its four bytes describes the run, and combining two streams takes four lookups.
using ZeroRun = std::array<std::array<uint32_t, 256>, 4>;

constexpr uint32_t after_zeros(const ZeroRun& run, uint32_t crc) {
  return run[0][crc & 0xff] ^ run[1][(crc >> 8) & 0xff] ^ run[2][(crc >> 16) & 0xff] ^
         run[3][crc >> 24];
}

constexpr ZeroRun make_zero_stripe() {
  ZeroRun run{kTables[7], kTables[6], kTables[5], kTables[4]};  // eight zero bytes
  for (size_t length = 8; length < kStripeBytes; length *= 2) {
    ZeroRun twice{};
    for (size_t k = 0; k < 4; ++k) {
      for (size_t byte = 0; byte < 256; ++byte) twice[k][byte] = after_zeros(run, run[k][byte]);
    }
    run = twice;
  }
  return run;
}

constexpr ZeroRun kZeroStripe = make_zero_stripe();

MILLRACE_CRC_TARGET uint32_t extend_by_instruction(uint32_t crc, const std::byte* data,
                                                   size_t size_bytes) {
  while (size_bytes >= 3 * kStripeBytes) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < kStripeBytes; i += 8) {
      crc = step64(crc, load64(data + i));
      second = step64(second, load64(data + kStripeBytes + i));
      third = step64(third, load64(data + 2 * kStripeBytes + i));
    }
    crc = after_zeros(kZeroStripe, after_zeros(kZeroStripe, crc) ^ second) ^ third;
    data += 3 * kStripeBytes;
    size_bytes -= 3 * kStripeBytes;
  }
  for (; size_bytes >= 8; data += 8, size_bytes -= 8) crc = step64(crc, load64(data));
  for (; size_bytes > 0; ++data, --size_bytes) crc = step8(crc, std::to_integer<uint8_t>(*data));
  return crc;
}

#else

bool cpu_has_crc() { return false; }
constexpr std::string_view kInstructionName = "none";
constexpr auto extend_by_instruction = extend_by_tables;

#endif

}  // namespace

uint32_t crc32c_by_tables(ByteView bytes, uint32_t before) {
  return ~extend_by_tables(~before, bytes.data(), bytes.size());
}

uint32_t crc32c(ByteView bytes, uint32_t before) {
  static const bool has_instruction = cpu_has_crc();
  if (!has_instruction) return crc32c_by_tables(bytes, before);
  return ~extend_by_instruction(~before, bytes.data(), bytes.size());
}

std::string_view crc32c_implementation() { return cpu_has_crc() ? kInstructionName : "tables"; }

}  // namespace millrace
