#include "trace/read/tables.h"

#include <algorithm>
#include <limits>

#include "base/bytes.h"

namespace millrace::trace {
namespace {

// Reads fields one after the other and keeps the first error, so that the code for an entry of
// twenty fields is a plain list.
class FieldReader {
 public:
  explicit FieldReader(ByteView payload) : in_(payload) {}

  template <typename Integer>
  void number(Integer& out) {
    const auto value = status_.ok() ? in_.read_varint() : Result<uint64_t>(uint64_t{0});
    if (!value.ok()) return note(value.error());
    if (*value > std::numeric_limits<Integer>::max()) {
      return note(fail(Errc::kCorrupt, "the number {} before byte {} is out of range", *value,
                       in_.position()));
    }
    out = static_cast<Integer>(*value);
  }

  template <typename Enum>
    requires std::is_enum_v<Enum>
  void number(Enum& out) {
    std::underlying_type_t<Enum> value{};
    number(value);
    out = static_cast<Enum>(value);
  }

  void number(bool& out) {
    uint8_t value = 0;
    number(value);
    if (value > 1)
      note(fail(Errc::kCorrupt, "{} before byte {} is neither 0 nor 1", value, in_.position()));
    out = value == 1;
  }

  template <typename Integer>
  void signed_number(Integer& out) {
    uint64_t folded = 0;
    number(folded);
    const int64_t value = unzigzag(folded);
    if (value < std::numeric_limits<Integer>::min() ||
        value > std::numeric_limits<Integer>::max()) {
      return note(fail(Errc::kCorrupt, "the number {} before byte {} is out of range", value,
                       in_.position()));
    }
    out = static_cast<Integer>(value);
  }

  void text(std::string& out) {
    uint64_t length = 0;
    number(length);
    if (!status_.ok()) return;
    const auto bytes = in_.take_text(length);
    if (!bytes.ok()) return note(bytes.error());
    out = *bytes;
  }

  template <typename T>
  void raw(T& out) {
    if (!status_.ok()) return;
    const auto value = in_.read<T>();
    if (!value.ok()) return note(value.error());
    out = *value;
  }

  bool ok() const { return status_.ok(); }
  void note(Error error) {
    if (status_.ok()) status_ = std::move(error);
  }

  // REQUIRES: nothing else is read afterwards.
  Status finish() && {
    if (status_.ok() && !in_.at_end()) {
      return fail(Errc::kCorrupt, "{} bytes are left over after the entries", in_.remaining());
    }
    return std::move(status_);
  }

 private:
  ByteReader in_;
  Status status_;
};

Error bad_index(const char* what, uint64_t index, size_t count) {
  return fail(Errc::kCorrupt, "{} {} is out of range: there are {}", what, index, count);
}

// An existing entry, or the next one.
template <typename Entry>
Entry* place(std::vector<Entry>& entries, uint32_t index, const char* what, FieldReader& in) {
  if (index < entries.size()) return &entries[index];
  if (index == entries.size()) return &entries.emplace_back();
  in.note(bad_index(what, index, entries.size()));
  return nullptr;
}

// The cores share a number with the levels: a field of their own would need a new version, and
// older builds ignore the bits of levels that they do not know.
constexpr uint32_t kCoresShift = 16;
constexpr uint32_t kCoresMax = 0xffff;

void take_session(FieldReader& in, SessionEntry& entry) {
  Session& session = entry.session;
  in.text(session.host);
  in.text(session.boot_id);
  in.number(session.launcher_pid);
  in.number(session.levels);
  session.cores = session.levels >> kCoresShift;
  session.levels &= (1U << kCoresShift) - 1;
  in.text(session.filters);
  in.signed_number(session.offset_ns);
  in.raw(session.drift_ppm);
  in.number(session.uncertainty_ns);
  in.text(session.alignment);
  in.text(entry.directory);
  in.number(entry.clock.known);
  in.number(entry.clock.counter);
  in.raw(entry.clock.first);
  in.raw(entry.clock.last);
}

void take_process(FieldReader& in, ProcessEntry& entry) {
  Process& process = entry.process;
  in.number(process.session);
  in.number(process.pid);
  in.number(process.parent_pid);
  in.signed_number(process.rank);
  in.signed_number(process.world_size);
  in.number(process.origin);
  in.number(process.start_ns);
  in.number(process.end_ns);
  in.number(process.exited);
  in.signed_number(process.exit_code);
  in.number(process.major_faults);
  in.number(process.minor_faults);
  in.number(process.executable);
  in.number(process.command_line);
  in.number(process.working_directory);
  for (PeerClock& peer : entry.peer) {
    in.signed_number(peer.offset_ns);
    in.number(peer.uncertainty_ns);
    in.number(peer.at_ns);
  }
  in.text(entry.recording);
}

}  // namespace

void put_names(const std::vector<std::string>& names, size_t first, size_t count, BytesOut& out) {
  out.put_varint(first);
  for (size_t i = first; i < first + count; ++i) out.put_text(names[i]);
}

void put_session(uint32_t index, const SessionEntry& entry, BytesOut& out) {
  const Session& session = entry.session;
  out.put_varint(index);
  out.put_text(session.host);
  out.put_text(session.boot_id);
  out.put_varint(session.launcher_pid);
  out.put_varint(session.levels | std::min(session.cores, kCoresMax) << kCoresShift);
  out.put_text(session.filters);
  out.put_signed(session.offset_ns);
  out.put(session.drift_ppm);
  out.put_varint(session.uncertainty_ns);
  out.put_text(session.alignment);
  out.put_text(entry.directory);
  out.put_varint(entry.clock.known ? 1 : 0);
  out.put_varint(static_cast<uint32_t>(entry.clock.counter));
  out.put(entry.clock.first);
  out.put(entry.clock.last);
}

void put_process(uint32_t index, const ProcessEntry& entry, BytesOut& out) {
  const Process& process = entry.process;
  out.put_varint(index);
  out.put_varint(process.session);
  out.put_varint(process.pid);
  out.put_varint(process.parent_pid);
  out.put_signed(process.rank);
  out.put_signed(process.world_size);
  out.put_varint(static_cast<uint32_t>(process.origin));
  out.put_varint(process.start_ns);
  out.put_varint(process.end_ns);
  out.put_varint(process.exited ? 1 : 0);
  out.put_signed(process.exit_code);
  out.put_varint(process.major_faults);
  out.put_varint(process.minor_faults);
  out.put_varint(static_cast<uint32_t>(process.executable));
  out.put_varint(static_cast<uint32_t>(process.command_line));
  out.put_varint(static_cast<uint32_t>(process.working_directory));
  for (const PeerClock& peer : entry.peer) {
    out.put_signed(peer.offset_ns);
    out.put_varint(peer.uncertainty_ns);
    out.put_varint(peer.at_ns);
  }
  out.put_text(entry.recording);
}

void put_rank_origin(uint32_t index, const ProcessEntry& entry, BytesOut& out) {
  const wire::RankOrigin& origin = entry.rank_origin;
  out.put_varint(index);
  out.put_varint(static_cast<uint32_t>(origin.told_by));
  out.put_varint(static_cast<uint32_t>(origin.outer_by));
  out.put_signed(origin.outer_rank);
}

void put_threads(const std::vector<Thread>& threads, size_t first, size_t count, BytesOut& out) {
  out.put_varint(first);
  for (size_t i = first; i < first + count; ++i) {
    out.put_varint(static_cast<uint32_t>(threads[i].process));
    out.put_varint(threads[i].tid);
  }
}

void put_loss(const LostEvents& loss, BytesOut& out) {
  out.put_varint(static_cast<uint32_t>(loss.process));
  out.put_varint(loss.events);
  out.put_varint(loss.names);
  out.put_varint(loss.first_ns);
  out.put_varint(loss.last_ns);
  out.put_varint(static_cast<uint32_t>(loss.error));
}

void put_commit(const Commit& commit, BytesOut& out) {
  out.put_varint(commit.from_offset);
  for (const auto& [recording, consumed] : commit.consumed) {
    out.put_text(recording);
    out.put_varint(consumed.log_bytes);
    out.put_varint(consumed.done ? 1 : 0);
    out.put_varint(consumed.next_sequence.size());
    for (const auto& [ring, sequence] : consumed.next_sequence) {
      out.put_varint(ring);
      out.put_varint(sequence);
    }
  }
}

void put_clock(const std::vector<wire::ClockSample>& samples, BytesOut& out) {
  for (const wire::ClockSample& sample : samples) out.put(sample);
}

Status take_names(ByteView payload, uint32_t count, Tables& tables) {
  FieldReader in(payload);
  uint64_t first = 0;
  in.number(first);
  if (in.ok() && first != tables.names.size()) {
    return fail(Errc::kCorrupt, "names start at number {}, but there are {} before", first,
                tables.names.size());
  }
  for (uint32_t i = 0; i < count && in.ok(); ++i) in.text(tables.names.emplace_back());
  return std::move(in).finish();
}

Status take_sessions(ByteView payload, uint32_t count, Tables& tables) {
  FieldReader in(payload);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    uint32_t index = 0;
    in.number(index);
    SessionEntry* entry = place(tables.sessions, index, "session", in);
    if (entry != nullptr) take_session(in, *entry);
  }
  return std::move(in).finish();
}

Status take_processes(ByteView payload, uint32_t count, Tables& tables) {
  FieldReader in(payload);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    uint32_t index = 0;
    in.number(index);
    ProcessEntry* entry = place(tables.processes, index, "process", in);
    if (entry == nullptr) break;
    take_process(in, *entry);
    const Process& process = entry->process;
    if (process.session >= tables.sessions.size()) {
      in.note(bad_index("session", process.session, tables.sessions.size()));
      entry->process.session = 0;
    }
    for (NameIndex* name : {&entry->process.executable, &entry->process.command_line,
                            &entry->process.working_directory}) {
      if (static_cast<uint32_t>(*name) < tables.names.size()) continue;
      in.note(bad_index("name", static_cast<uint32_t>(*name), tables.names.size()));
      *name = NameIndex{};
    }
  }
  return std::move(in).finish();
}

Status take_rank_origins(ByteView payload, uint32_t count, Tables& tables) {
  FieldReader in(payload);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    uint32_t index = 0;
    wire::RankOrigin origin{};
    in.number(index);
    in.number(origin.told_by);
    in.number(origin.outer_by);
    in.signed_number(origin.outer_rank);
    if (index >= tables.processes.size()) {
      in.note(bad_index("process", index, tables.processes.size()));
    } else if (in.ok()) {
      tables.processes[index].rank_origin = origin;
    }
  }
  return std::move(in).finish();
}

Status take_threads(ByteView payload, uint32_t count, Tables& tables) {
  FieldReader in(payload);
  uint64_t first = 0;
  in.number(first);
  if (in.ok() && first != tables.threads.size()) {
    return fail(Errc::kCorrupt, "threads start at number {}, but there are {} before", first,
                tables.threads.size());
  }
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Thread thread;
    in.number(thread.process);
    in.number(thread.tid);
    const auto process = static_cast<uint32_t>(thread.process);
    if (process >= tables.processes.size()) {
      in.note(bad_index("process", process, tables.processes.size()));
    }
    if (in.ok()) tables.threads.push_back(thread);
  }
  return std::move(in).finish();
}

Status take_losses(ByteView payload, uint32_t count, Tables& tables) {
  FieldReader in(payload);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    LostEvents loss;
    in.number(loss.process);
    in.number(loss.events);
    in.number(loss.names);
    in.number(loss.first_ns);
    in.number(loss.last_ns);
    in.number(loss.error);
    const auto process = static_cast<uint32_t>(loss.process);
    if (loss.process != kNoProcess && process >= tables.processes.size()) {
      in.note(bad_index("process", process, tables.processes.size()));
    }
    if (in.ok()) tables.losses.push_back(loss);
  }
  return std::move(in).finish();
}

Status take_commit(ByteView payload, uint32_t count, Commit& commit) {
  FieldReader in(payload);
  in.number(commit.from_offset);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    std::string recording;
    in.text(recording);
    Consumed& consumed = commit.consumed[recording];
    uint64_t ring_count = 0;
    in.number(consumed.log_bytes);
    in.number(consumed.done);
    in.number(ring_count);
    for (uint64_t ring = 0; ring < ring_count && in.ok(); ++ring) {
      uint32_t number = 0;
      uint64_t sequence = 0;
      in.number(number);
      in.number(sequence);
      consumed.next_sequence[number] = sequence;
    }
  }
  return std::move(in).finish();
}

Status take_clock(ByteView payload, uint32_t count, std::vector<wire::ClockSample>& samples) {
  FieldReader in(payload);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    wire::ClockSample sample{};
    in.raw(sample);
    if (in.ok()) samples.push_back(sample);
  }
  return std::move(in).finish();
}

}  // namespace millrace::trace
