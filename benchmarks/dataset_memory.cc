// How much memory a Dataset of ImageNet's size needs (1.28 M files), compared with a vector of
// paths.
//
// Measured as the growth of the resident memory of the process, which includes the overhead of the
// allocator. usage: bench_dataset_memory [FILE_COUNT]
#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "data/dataset.h"

namespace {

using namespace millrace;

constexpr uint64_t kClassCount = 1000;

uint64_t resident_bytes() {
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// For example "train/n01440764/n01440764_10026.JPEG".
std::string class_name(uint64_t index) { return fmt::format("n{:08}", 1440764 + index * 13097); }

std::string file_name(uint64_t class_index, uint64_t file) {
  return fmt::format("{}_{}.JPEG", class_name(class_index), 10000 + file * 7 % 90000);
}

data::Dataset build(uint64_t file_count) {
  data::DatasetBuilder builder;
  std::vector<std::string> classes;
  for (uint64_t c = 0; c < kClassCount; ++c) {
    const std::string directory = "train/" + class_name(c);
    classes.push_back(class_name(c));
    for (uint64_t i = c; i < file_count; i += kClassCount) {
      if (!builder.add_file(directory, file_name(c, i / kClassCount), static_cast<int32_t>(c))
               .ok()) {
        std::abort();
      }
    }
  }
  builder.set_class_names(std::move(classes));
  return std::move(builder).build();
}

std::vector<std::string> build_strings(uint64_t file_count) {
  std::vector<std::string> paths;
  for (uint64_t c = 0; c < kClassCount; ++c) {
    for (uint64_t i = c; i < file_count; i += kClassCount) {
      paths.push_back("train/" + class_name(c) + "/" + file_name(c, i / kClassCount));
    }
  }
  paths.shrink_to_fit();
  return paths;
}

template <typename Build>
void measure(const char* name, uint64_t file_count, Build&& build_it) {
  const uint64_t before = resident_bytes();
  const auto begin = monotonic_now();
  const auto held = build_it(file_count);
  const std::chrono::duration<double> took = monotonic_now() - begin;
  const uint64_t after = resident_bytes();
  const double each = static_cast<double>(after - before) / static_cast<double>(file_count);
  fmt::print("{:<26} {:6.1f} bytes per file {:6.0f} ms\n", name, each, took.count() * 1e3);
  asm volatile("" : : "r"(&held) : "memory");
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t file_count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'281'167;
  fmt::print("{} files\n", file_count);
  measure("data::Dataset", file_count, build);
  measure("std::vector<std::string>", file_count, build_strings);
  const millrace::data::Dataset dataset = build(file_count);
  uint64_t sum = 0;
  const auto begin = millrace::monotonic_now();
  for (uint64_t i = 0; i < file_count; ++i) {
    sum +=
        dataset.path(dataset.extent(millrace::data::SampleId{i * 7919 % file_count}).file).size();
  }
  const std::chrono::duration<double> took = millrace::monotonic_now() - begin;
  fmt::print("lookup of a path by its sample, in random order: {:.0f} ns\n",
             took.count() * 1e9 / static_cast<double>(file_count));
  asm volatile("" : : "r"(sum) : "memory");
  return 0;
}
