// What a packed event costs: bytes on disk, nanoseconds to encode and to decode.
#include <fmt/core.h>

#include <algorithm>

#include "base/system/clock.h"
#include "base/text/table.h"
#include "benchmarks/measure.h"
#include "trace/pack/block_codec.h"
#include "trace/pack/packed_writer.h"
#include "trace/testing/event_samples.h"

namespace millrace::bench {
namespace {

using trace::BlockDecoder;
using trace::BlockEncoder;
using trace::EventColumns;
using trace::PackedWriter;

constexpr size_t kEvents = 1'000'000;
constexpr int kRounds = 9;

struct Costs {
  double bytes = 0;
  double encode_ns = 1e300;
  double decode_ns = 1e300;
};

double spent_ns(std::chrono::nanoseconds since) {
  return static_cast<double>((process_cpu_time() - since).count()) / kEvents;
}

Costs measure(const EventColumns& events) {
  Costs costs;
  BlockEncoder encoder;
  BlockDecoder decoder;
  EventColumns columns;
  std::vector<PackedWriter::EncodedBlock> blocks;
  for (int round = 0; round < kRounds; ++round) {
    auto start = process_cpu_time();
    size_t block_count = 0;
    for (size_t first = 0; first < events.size_events(); ++block_count) {
      const trace::EventRun run = PackedWriter::next_run(events, first);
      if (blocks.size() == block_count) blocks.emplace_back();
      PackedWriter::encode(events, run, {}, encoder, blocks[block_count]);
      first += run.count;
    }
    costs.encode_ns = std::min(costs.encode_ns, spent_ns(start));
    start = process_cpu_time();
    costs.bytes = 0;
    for (const auto& block : blocks) {
      const auto status =
          decoder.decode(block.payload.view(), block.count, block.begin_ns, columns);
      if (!status.ok()) fmt::print(stderr, "{}\n", status.error().message());
      keep(columns.begin_ns.data());
      costs.bytes += static_cast<double>(block.payload.size() + sizeof(wire::TraceBlockHeader));
    }
    costs.decode_ns = std::min(costs.decode_ns, spent_ns(start));
  }
  costs.bytes /= kEvents;
  return costs;
}

}  // namespace
}  // namespace millrace::bench

int main() {
  using namespace millrace;
  Table table({{.title = "1 M events"},
               {.title = "bytes/event", .align = Table::Align::kRight},
               {.title = "encode ns", .align = Table::Align::kRight},
               {.title = "decode ns", .align = Table::Align::kRight}});
  const auto row = [&](const char* name, const trace::EventColumns& events) {
    const bench::Costs costs = bench::measure(events);
    table.add_row({name, fmt::format("{:.2f}", costs.bytes), fmt::format("{:.1f}", costs.encode_ns),
                   fmt::format("{:.1f}", costs.decode_ns)});
  };
  row("random preads of 4 KiB over 1 GiB", trace::random_preads(bench::kEvents));
  row("sequential reads of 128 KiB", trace::sequential_reads(bench::kEvents));
  row("open, read, close over 1,000 files", trace::small_files(bench::kEvents, 1000));
  row("regions over reads of 64 files", trace::regions(bench::kEvents));
  fmt::print("{}", table.render(inspect_terminal(1)));
}
