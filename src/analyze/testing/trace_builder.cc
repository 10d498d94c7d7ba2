#include "analyze/testing/trace_builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace millrace::analyze {
namespace {

constexpr uint32_t kFirstPid = 1000;

struct Made {
  wire::Call call{};
  std::string file;
  EventSpec spec;
};

struct MadeProcess {
  ProgramSpec spec;
  std::vector<Made> events;
};

template <typename T>
T must(Result<T> result) {
  if (result.ok()) return *std::move(result);
  fmt::print(stderr, "TraceBuilder: {}\n", result.error().message());
  std::abort();
}

void must(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "TraceBuilder: {}\n", status.error().message());
  std::abort();
}

uint64_t end_of(const Made& made) {
  return static_cast<uint64_t>((made.spec.at + made.spec.takes).count());
}

}  // namespace

struct TraceBuilder::State {
  std::string path;
  std::vector<MadeProcess> processes;

  void write_process(trace::TraceWriter& writer, std::map<std::string, uint32_t>& sessions,
                     size_t index);
};

namespace {

void append(const Made& made, trace::TraceWriter& writer, trace::ThreadIndex thread,
            trace::EventColumns& columns) {
  const EventSpec& spec = made.spec;
  const bool is_region = wire::level_of(made.call) == wire::Level::kApp;
  columns.begin_ns.push_back(static_cast<uint64_t>(spec.at.count()));
  columns.duration_ns.push_back(static_cast<uint64_t>(spec.takes.count()));
  columns.call.push_back(made.call);
  columns.file.push_back(writer.add_name(made.file));
  if (is_region) {
    columns.offset.push_back(spec.step < 0 ? wire::kNoStep : static_cast<uint64_t>(spec.step));
    columns.size.push_back(spec.epoch < 0 ? wire::kNoEpoch : static_cast<uint64_t>(spec.epoch));
    columns.result.push_back(0);
  } else {
    columns.offset.push_back(spec.offset);
    columns.size.push_back(spec.size);
    columns.result.push_back(spec.result == -2 ? static_cast<int64_t>(spec.size) : spec.result);
  }
  columns.error.push_back(spec.error);
  columns.thread.push_back(thread);
  columns.detail.push_back(spec.detail);
  columns.other_file.push_back(spec.other_file.empty() ? trace::NameIndex{}
                                                       : writer.add_name(spec.other_file));
  columns.other_offset.push_back(wire::kNoOffset);
  columns.flags.push_back(0);
  if (columns.tag_begin.empty()) columns.tag_begin.push_back(0);
  for (const auto& [key, value] : spec.tags) {
    columns.tags.push_back(
        {writer.add_name(key), wire::TagKind::kInteger, static_cast<uint64_t>(value)});
  }
  columns.tag_begin.push_back(static_cast<uint32_t>(columns.tags.size()));
}

}  // namespace

void TraceBuilder::State::write_process(trace::TraceWriter& writer,
                                        std::map<std::string, uint32_t>& sessions, size_t index) {
  MadeProcess& made = processes[index];
  const auto [session, is_new] = sessions.try_emplace(made.spec.host, 0);
  if (is_new) {
    trace::Session entry;
    entry.host = made.spec.host;
    entry.launcher_pid = 1;
    entry.levels = 0x3e;
    entry.cores = made.spec.cores;
    session->second = writer.add_session(entry);
  }
  std::stable_sort(made.events.begin(), made.events.end(),
                   [](const Made& a, const Made& b) { return end_of(a) < end_of(b); });
  const auto pid = static_cast<uint32_t>(kFirstPid + index);
  trace::Process process{.session = session->second,
                         .pid = pid,
                         .parent_pid = made.spec.parent_pid,
                         .rank = made.spec.rank,
                         .world_size = made.spec.world_size,
                         .exited = true,
                         .exit_code = made.spec.exit_code};
  process.start_ns = ~uint64_t{0};
  for (const Made& event : made.events) {
    process.start_ns = std::min(process.start_ns, static_cast<uint64_t>(event.spec.at.count()));
    process.end_ns = std::max(process.end_ns, end_of(event));
  }
  if (made.events.empty()) process.start_ns = 0;
  process.executable = writer.add_name(made.spec.command.substr(0, made.spec.command.find(' ')));
  process.command_line = writer.add_name(made.spec.command);
  process.working_directory = writer.add_name("/job");
  const trace::ProcessIndex process_index = writer.add_process(process);
  std::map<uint32_t, trace::ThreadIndex> threads;
  trace::EventColumns columns;
  for (const Made& event : made.events) {
    const auto [thread, is_new_thread] = threads.try_emplace(event.spec.thread);
    if (is_new_thread) {
      thread->second =
          writer.add_thread({.process = process_index, .tid = pid + 10000 * event.spec.thread});
    }
    append(event, writer, thread->second, columns);
    if (columns.size_events() < 65536) continue;
    must(writer.append(columns));
    clear(columns);
  }
  if (columns.size_events() > 0) must(writer.append(columns));
}

TraceBuilder::TraceBuilder(std::string path) : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
}
TraceBuilder::~TraceBuilder() = default;

Program TraceBuilder::program(const ProgramSpec& spec) {
  state_->processes.push_back({.spec = spec, .events = {}});
  return {*this, state_->processes.size() - 1};
}

void TraceBuilder::write() {
  std::filesystem::remove(state_->path);  // that of an earlier builder: a writer replaces no file
  auto writer = must(trace::TraceWriter::create(state_->path, 1'700'000'000'000'000'000));
  std::map<std::string, uint32_t> sessions;
  for (size_t i = 0; i < state_->processes.size(); ++i) {
    state_->write_process(writer, sessions, i);
  }
  must(writer.finish());
}

trace::Trace TraceBuilder::finish() {
  write();
  return must(trace::Trace::open(state_->path));
}

uint32_t Program::pid() const { return static_cast<uint32_t>(kFirstPid + index_); }

void Program::call(wire::Call call, std::string_view file, EventSpec spec) const {
  builder_->state_->processes[index_].events.push_back(
      {.call = call, .file = std::string(file), .spec = spec});
}

void Program::open(std::string_view file, EventSpec spec) const {
  if (spec.result == -2) spec.result = 3;
  call(wire::Call::kOpen, file, spec);
}
void Program::read(std::string_view file, EventSpec spec) const {
  call(wire::Call::kPread, file, spec);
}
void Program::write(std::string_view file, EventSpec spec) const {
  call(wire::Call::kPwrite, file, spec);
}
void Program::close(std::string_view file, EventSpec spec) const {
  if (spec.result == -2) spec.result = 0;
  call(wire::Call::kClose, file, spec);
}
void Program::fstat(std::string_view file, EventSpec spec) const {
  if (spec.result == -2) spec.result = 0;
  call(wire::Call::kFstat, file, spec);
}
void Program::region(std::string_view name, EventSpec spec) const {
  call(wire::Call::kRegion, name, spec);
}

}  // namespace millrace::analyze
