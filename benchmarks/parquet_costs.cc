// Writes and reads Parquet files, for benchmarks/parquet_peers.py, which compares the times with
// pyarrow.
//
// usage: bench_parquet write FILE COLUMNS ROWS ROW_GROUP_ROWS CODEC KIND THREADS
//        bench_parquet read FILE THREADS ROUNDS     decodes all row groups, as columns
//        bench_parquet rows FILE THREADS ROUNDS     reads all rows as samples, in order
// KIND: floats (random), integers (0 to 999), words (of 1,000). Prints the best time in seconds, of
// the write without making the values: CPU time with one thread, otherwise wall time.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "benchmarks/must.h"
#include "format/parquet/codec.h"
#include "format/parquet/parquet_file.h"
#include "format/parquet/parquet_source.h"
#include "format/parquet/parquet_writer.h"

namespace millrace::bench {
namespace {

using format::ParquetColumn;
using format::ParquetValues;
using Words = std::vector<std::string>;

class Stopwatch {
 public:
  explicit Stopwatch(const std::string& threads) : by_cpu_(threads == "1") {}

  double seconds() const { return std::chrono::duration<double>(now() - start_).count(); }

 private:
  std::chrono::nanoseconds now() const {
    if (by_cpu_) return process_cpu_time();
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  bool by_cpu_;
  std::chrono::nanoseconds start_ = now();
};

struct Values {
  std::vector<uint32_t> numbers;
  std::string text;
  std::vector<uint64_t> offsets;

  Values(const std::string& kind, size_t rows, uint32_t seed) {
    std::mt19937 random(seed);
    if (kind == "words") offsets.push_back(0);
    for (size_t i = 0; i < rows; ++i) {
      const auto number = static_cast<uint32_t>(random());
      if (kind == "floats") numbers.push_back((number & 0x7fffff) | 0x3f000000);
      if (kind == "integers") numbers.push_back(number % 1000);
      if (kind != "words") continue;
      text += fmt::format("word number {}", number % 1000);
      offsets.push_back(text.size());
    }
  }
  ParquetValues view() const {
    if (offsets.empty()) return {.values = std::as_bytes(std::span(numbers))};
    return {.values = bytes_of(text), .offsets = offsets};
  }
};

format::parquet::Codec codec_named(const std::string& name) {
  using format::parquet::Codec;
  for (const Codec codec : {Codec::kSnappy, Codec::kGzip, Codec::kZstd}) {
    if (name == format::parquet::codec_name(codec)) return codec;
  }
  return Codec::kNone;
}

double write(const Words& words) {
  const size_t column_count = std::stoull(words[2]);
  const size_t row_count = std::stoull(words[3]);
  const uint64_t group_rows = std::stoull(words[4]);
  const std::string& kind = words[6];
  std::vector<ParquetColumn> columns;
  std::vector<ParquetValues> values;
  // Different enough for the compressor, and quick to make.
  std::vector<Values> made;
  for (uint32_t i = 0; i < 4; ++i) made.emplace_back(kind, group_rows, i);
  for (size_t i = 0; i < column_count; ++i) {
    columns.push_back(
        {.name = fmt::format("c{}", i),
         .kind = kind == "words" ? ParquetColumn::Kind::kText : ParquetColumn::Kind::kNumber,
         .type = kind == "floats" ? data::ElementType::kF32 : data::ElementType::kI32});
    values.push_back(made[i % made.size()].view());
  }
  const auto engine = must(io::open_engine("posix"));
  const Stopwatch watch(words[7]);
  const auto writer = must(format::ParquetWriter::create(*engine, words[1], columns,
                                                         {.codec = codec_named(words[5]),
                                                          .row_group_rows = group_rows,
                                                          .thread_count = std::stoull(words[7])}));
  for (size_t row = 0; row < row_count; row += group_rows) must(writer->append(group_rows, values));
  must(writer->finish());
  return watch.seconds();
}

double read_columns(const Words& words) {
  const auto engine = must(io::open_engine("posix"));
  const size_t threads = std::stoull(words[2]);
  ThreadPool pool(std::max<size_t>(threads, 2) - 1);
  double best = 1e9;
  for (int round = 0; round < std::stoi(words[3]); ++round) {
    const Stopwatch watch(words[2]);
    const auto reader = must(engine->open(words[1]));
    const auto file = must(format::ParquetFile::open(*reader));
    const auto chosen = must(file.choose({}));
    for (uint64_t group = 0; group < file.row_group_count(); ++group) {
      must(file.read_row_group(*reader, group, chosen, threads > 1 ? &pool : nullptr));
    }
    best = std::min(best, watch.seconds());
  }
  return best;
}

double read_rows(const Words& words) {
  double best = 1e9;
  for (int round = 0; round < std::stoi(words[3]); ++round) {
    const Stopwatch watch(words[2]);
    const auto source = must(format::ParquetSource::open(must(io::open_engine("posix")), {words[1]},
                                                         {.thread_count = std::stoull(words[2])}));
    data::Buffer room;
    for (uint64_t i = 0; i < source->sample_count(); ++i)
      must(source->read(data::SampleId{i}, room));
    best = std::min(best, watch.seconds());
  }
  return best;
}

double run(const Words& words) {
  if (words.size() == 8 && words[0] == "write") return write(words);
  if (words.size() == 4 && words[0] == "read") return read_columns(words);
  if (words.size() == 4 && words[0] == "rows") return read_rows(words);
  give_up("usage: bench_parquet write|read|rows FILE ...; see its source");
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  fmt::print("{}\n", millrace::bench::run(std::vector<std::string>(argv + 1, argv + argc)));
}
