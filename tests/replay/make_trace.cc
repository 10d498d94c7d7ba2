// Writes a trace with the calls of standard input: what tests need and no job does.
//
// Usage: make_trace OUT.mrt < CALLS
//
// A line is a call: seven fields with tabs between them. FUNCTION FILE OTHER_FILE OFFSET SIZE
// RESULT DETAIL, as in the events of a trace; an empty offset is an unknown one. Each call begins
// when the one before it has ended.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "interop/describe.h"
#include "interop/import_columns.h"
#include "trace/trace.h"

namespace millrace {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char letter : line) {
    if (letter == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += letter;
    }
  }
  return fields;
}

[[noreturn]] void fail_with(const std::string& message) {
  std::fprintf(stderr, "make_trace: %s\n", message.c_str());
  std::exit(1);
}

wire::Call call_named(const std::string& name) {
  for (uint32_t number = 0x100; number < 0x600; ++number) {
    const auto call = static_cast<wire::Call>(number);
    if (interop::call_name(call) == name) return call;
  }
  fail_with("no call is named " + name);
}

uint64_t number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 0); }

interop::Event event_of(const std::string& line, trace::TraceWriter& writer) {
  const std::vector<std::string> fields = split(line);
  if (fields.size() != 7) fail_with("not seven fields: " + line);
  return {.offset = fields[3].empty() ? wire::kNoOffset : number(fields[3]),
          .size = number(fields[4]),
          .result = std::strtoll(fields[5].c_str(), nullptr, 0),
          .other_offset = wire::kNoOffset,
          .tags = {},
          .file = writer.add_name(fields[1]),
          .other_file = writer.add_name(fields[2]),
          .detail = static_cast<uint32_t>(number(fields[6])),
          .call = call_named(fields[0])};
}

int write_trace(const char* path) {
  auto writer = trace::TraceWriter::create(path, 1'700'000'000'000'000'000);
  if (!writer.ok()) fail_with(writer.error().message());
  const auto process =
      writer->add_process({.session = writer->add_session({.host = "node1"}), .pid = 100});
  const auto thread = writer->add_thread({.process = process, .tid = 100});
  trace::EventColumns columns;
  uint64_t now_ns = 1000;
  for (std::string line; std::getline(std::cin, line); now_ns += 100) {
    interop::Event event = event_of(line, *writer);
    event.thread = thread;
    event.begin_ns = now_ns;
    event.end_ns = now_ns + 50;
    append_event(columns, event, thread);
  }
  if (const Status added = writer->append(columns); !added.ok()) fail_with(added.error().message());
  if (const Status done = writer->finish(); !done.ok()) fail_with(done.error().message());
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  return millrace::write_trace(arguments[1]);
}
