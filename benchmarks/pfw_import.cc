// What traces of other tools cost: scanning and importing DFTracer's lines, and each export.
#include <fmt/core.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "base/text/json.h"
#include "benchmarks/measure.h"
#include "interop/interop.h"
#include "interop/pfw/line.h"
#include "trace/trace.h"

namespace millrace::bench {
namespace {

constexpr size_t kEvents = 300'000;

// Reads of 4 KiB from 100 files by four threads, written like DFTracer 2.2 with metadata.
std::string sample_text() {
  Random random(1);
  std::string text;
  for (int file = 0; file < 100; ++file) {
    text += fmt::format(
        R"({{"name":"FH","cat":"dftracer","type":1,"pid":8976,"tid":8976,"ph":4,"args":{{"hhash":"6882804a826580cd","name":"/dataset/train/{:05}.npz","value":"{:016x}"}}}})"
        "\n",
        file, file + 1);
  }
  uint64_t now = 1'794'724'198'886'610;
  for (size_t i = 0; i < kEvents; ++i) {
    now += random.below(5);
    text += fmt::format(
        R"({{"id":{},"name":"pread","cat":"POSIX","type":3,"pid":8976,"tid":{},"ts":{},"dur":{},"ph":1,"args":{{"hhash":"6882804a826580cd","ret":4096,"offset":{},"count":4096,"fhash":"{:016x}"}}}})"
        "\n",
        i, 8976 + random.below(4), now, random.below(4), random.below(1 << 20) * 4096,
        random.below(100) + 1);
  }
  return text;
}

template <typename Use>
void for_each_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    use(text.substr(0, newline));
    text.remove_prefix(newline + 1);
  }
}

void scan_costs(const std::string& text) {
  std::string copy(text.size(), '\0');
  compare(
      fmt::format("lines of {} MB, a KiB", text.size() / 1'000'000), text.size() / 1024,
      {{"memcpy (floor)",
        [&] {
          std::memcpy(copy.data(), text.data(), text.size());
          keep(copy[0]);
        }},
       {"ends of lines", [&] { for_each_line(text, [](std::string_view line) { keep(line); }); }},
       {"scan_pfw_line",
        [&] {
          interop::PfwLine line;
          for_each_line(text,
                        [&](std::string_view one) { keep(interop::scan_pfw_line(one, line)); });
        }},
       {"parse_json, a tenth of them",
        [&] {
          size_t count = 0;
          for_each_line(text, [&](std::string_view one) {
            if (count++ % 10 == 0) keep(parse_json(one, "line").ok());
          });
        }}},
      5);
}

// Prints the best of several rounds: text per second, and time per event.
template <typename Work>
void print_speed(std::string_view what, size_t text_bytes, Work&& work) {
  double best_s = 1e300;
  for (int round = 0; round < 5; ++round) {
    const auto start = process_cpu_time();
    if (!work()) {
      fmt::print("{}: failed\n", what);
      return;
    }
    best_s = std::min(best_s, static_cast<double>((process_cpu_time() - start).count()) / 1e9);
  }
  fmt::print("{:<28} {:>7.0f} MB/s of text {:>7.0f} ns per event\n", what,
             static_cast<double>(text_bytes) / best_s / 1e6, best_s * 1e9 / kEvents);
}

void file_costs(const std::string& text) {
  const TemporaryDirectory directory = *TemporaryDirectory::create();
  const auto path = [&](const std::string& name) { return (directory.path() / name).string(); };
  std::ofstream(path("in.pfw"), std::ios::binary) << text;
  fmt::print("CPU time of the process, {} events, the minimum of five rounds\n", kEvents);
  // An import replaces no file.
  const auto import = [&](const std::string& from, const std::string& to) {
    std::filesystem::remove(path(to));
    return interop::import_pfw({path(from)}, path(to)).ok();
  };
  print_speed("import .pfw", text.size(), [&] { return import("in.pfw", "t.mrt"); });
  const auto trace = trace::Trace::open(path("t.mrt"));
  if (!trace.ok()) return;
  for (const std::string format : {"pfw", "perfetto", "chrome", "csv"}) {
    for (const std::string ending : {"", ".gz"}) {
      const std::string name = "out." + format + ending;
      uint64_t size_bytes = 0;
      print_speed("export " + name.substr(4), 0, [&] {
        const auto report = interop::export_trace(*trace, format, {}, path(name));
        if (report.ok()) size_bytes = report->size_bytes;
        return report.ok();
      });
      fmt::print("{:<28} {:>7.1f} bytes per event\n", "",
                 static_cast<double>(size_bytes) / kEvents);
    }
  }
  print_speed("import .pfw.gz", text.size(), [&] { return import("out.pfw.gz", "u.mrt"); });
}

}  // namespace
}  // namespace millrace::bench

int main() {
  const std::string text = millrace::bench::sample_text();
  millrace::bench::scan_costs(text);
  millrace::bench::file_costs(text);
  return 0;
}
