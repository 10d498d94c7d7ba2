// A trace may contain any numbers: times that run backwards, sizes beyond the largest file, unknown
// calls. The bytes become events of a real trace file, which is scanned as for a report. Messages
// between ranks may be anything too: the results of the scan, overwritten with the bytes, are
// merged into another scan.
#include <cstdint>
#include <cstring>
#include <string>

#include "advise/advise.h"
#include "analyze/detail/detail.h"
#include "analyze/profile/profile_json.h"
#include "analyze/profile/profile_read.h"
#include "analyze/scan.h"
#include "base/io/temporary_directory.h"
#include "trace/trace.h"

namespace {

using namespace millrace;

// Reads numbers from the bytes; 0 at the end.
class Numbers {
 public:
  Numbers(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool at_end() const { return left_ == 0; }
  uint64_t next(size_t bytes) {
    uint64_t value = 0;
    const size_t taken = bytes < left_ ? bytes : left_;
    std::memcpy(&value, data_, taken);
    data_ += taken;
    left_ -= taken;
    return value;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

// A number of a few bits, or of all bits.
uint64_t any_number(Numbers& numbers) {
  const uint64_t shape = numbers.next(1);
  return shape < 200 ? numbers.next(2) << (shape % 4 * 8) : numbers.next(8);
}

trace::EventColumns make_events(Numbers& numbers, const std::vector<trace::NameIndex>& names,
                                const std::vector<trace::ThreadIndex>& threads) {
  trace::EventColumns columns;
  while (!numbers.at_end() && columns.size_events() < 500) {
    const uint64_t call = numbers.next(1);
    columns.call.push_back(static_cast<wire::Call>((call % 7) << 8 | (numbers.next(1) % 160)));
    columns.begin_ns.push_back(any_number(numbers));
    columns.duration_ns.push_back(any_number(numbers));
    columns.file.push_back(names[numbers.next(1) % names.size()]);
    columns.offset.push_back(any_number(numbers));
    columns.size.push_back(any_number(numbers));
    columns.result.push_back(static_cast<int64_t>(any_number(numbers)));
    columns.error.push_back(static_cast<uint16_t>(numbers.next(1) % 3));
    columns.thread.push_back(threads[numbers.next(1) % threads.size()]);
    columns.detail.push_back(static_cast<uint32_t>(numbers.next(2)));
    columns.other_file.push_back(names[numbers.next(1) % names.size()]);
    columns.other_offset.push_back(any_number(numbers));
    columns.flags.push_back(0);
  }
  return columns;
}

// Two ranks and a worker share the events.
bool write_trace(const std::string& path, const uint8_t* data, size_t size) {
  auto writer = trace::TraceWriter::create(path, 1'700'000'000'000'000'000);
  if (!writer.ok()) return false;
  trace::Session session;
  session.host = "node";
  session.levels = size % 2 == 0 ? 0x3e : 0x30;
  const uint32_t host = writer->add_session(session);
  std::vector<trace::NameIndex> names = {trace::NameIndex{}};
  for (const char* name : {"/data/a.jpg", "/data/b.h5", "epoch", "compute", "batch_wait", "fetch",
                           "checkpoint", "step", "/out/model.pt", "/usr/lib/x.so", "decode"}) {
    names.push_back(writer->add_name(name));
  }
  const size_t third = size / 3;
  for (uint32_t i = 0; i < 3; ++i) {
    const trace::Process process{.session = host,
                                 .pid = 10 + i,
                                 .parent_pid = i == 2 ? 10U : 1U,
                                 .rank = i < 2 ? static_cast<int32_t>(i) : -1};
    const trace::ProcessIndex index = writer->add_process(process);
    std::vector<trace::ThreadIndex> threads;
    for (uint32_t thread = 0; thread < 2; ++thread) {
      threads.push_back(writer->add_thread({.process = index, .tid = 100 * i + thread}));
    }
    Numbers numbers(data + i * third, third);
    const trace::EventColumns columns = make_events(numbers, names, threads);
    if (columns.size_events() > 0 && !writer->append(columns).ok()) return false;
  }
  return writer->finish().ok();
}

void scan(const trace::Trace& trace, const uint8_t* data, size_t size) {
  const analyze::Options options{.threads = 1};
  analyze::Scan scan(trace, options, {});
  scan.run({}, {});
  std::vector<std::byte> saved = scan.save();
  const analyze::Profile profile = scan.finish();
  // A file that we wrote must be readable.
  if (!analyze::parse_profile(analyze::profile_json(profile), "fuzz").ok()) __builtin_trap();
  static_cast<void>(analyze::detail_json(scan.context(), profile));
  static_cast<void>(advise::advise(profile, {}));

  analyze::Scan other(trace, options, {});
  if (!other.merge(saved).ok()) __builtin_trap();
  for (size_t i = 0; i + 3 < size && i < 30; i += 3) {
    const size_t at = (static_cast<size_t>(data[i]) << 8 | data[i + 1]) % saved.size();
    saved[at] ^= static_cast<std::byte>(data[i + 2]);
  }
  if (other.merge(saved).ok()) static_cast<void>(other.finish());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto directory = TemporaryDirectory::create();
  if (!directory.ok()) return 0;
  const std::string path = directory->path() / "t.mrt";
  if (write_trace(path, data, size)) {
    const auto trace = trace::Trace::open(path);
    if (trace.ok()) scan(*trace, data, size);
  }
  return 0;
}
