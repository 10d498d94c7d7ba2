// Fuzz driver: runs a libFuzzer target without libFuzzer, deterministically.
//
// Mutates the seeds of a directory with a fixed random stream. It does not measure coverage, so it
// finds less than libFuzzer, but it catches regressions, with every compiler.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/numbers/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using millrace::Random;

// Byte sequences that are special to many parsers.
constexpr std::string_view kPieces[] = {"\"",   "\\u",  "{",  "}",   "[",  "]",   ":",    ",",
                                        "-",    "--",   "&a", "*a",  "!!", "0",   "1e9",  "\xff",
                                        "\xc2", "\n  ", "\t", "999", ".",  "KiB", "\\040"};

std::string mutated(std::string input, const std::vector<std::string>& seeds, Random& random) {
  for (uint64_t change = random.below(8); change > 0; --change) {
    const size_t at = random.below(input.size() + 1);
    switch (random.below(6)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
        break;
      case 1:
        input.insert(at, kPieces[random.below(std::size(kPieces))]);
        break;
      case 2:
        input.erase(at, random.below(16));
        break;
      case 3:
        input.insert(at, input.substr(at, random.below(64)));
        break;
      case 4:
        input.resize(at);
        break;
      default: {
        const std::string& other = seeds[random.below(seeds.size())];
        input += other.substr(random.below(other.size() + 1));
      }
    }
    if (input.size() > 4096) input.resize(4096);
  }
  return input;
}

void run_one(const std::string& input) {
  // A heap copy of exactly this size, so that a sanitizer detects any read beyond it.
  const std::vector<uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: {} CORPUS ROUNDS\n", argv[0]);
    return 2;
  }
  std::vector<std::string> seeds;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1], error)) {
    if (const auto content = millrace::read_file(entry.path()); content.ok()) {
      seeds.push_back(*content);
    }
  }
  if (seeds.empty()) {
    fmt::print(stderr, "{}: no seeds\n", argv[1]);
    return 2;
  }
  std::sort(seeds.begin(), seeds.end());  // the order of a directory depends on the file system
  for (const std::string& seed : seeds) run_one(seed);
  Random random(20'000);
  const int rounds = std::atoi(argv[2]);
  for (int round = 0; round < rounds; ++round) {
    run_one(mutated(seeds[random.below(seeds.size())], seeds, random));
  }
  fmt::print("{} seeds, {} rounds\n", seeds.size(), rounds);
  return 0;
}
