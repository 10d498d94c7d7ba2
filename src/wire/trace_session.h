// Session: the files of a recording. docs/formats/recording.md.
//
// A session is one launch on one host, in a directory of its own:
//   session            SessionPage: clocks, host, losses that nothing else can count
//   names              NamesHeader, then NameEntries: every path and text, once
//   names.index        a hash table over them, shared by all processes
//   PID-TICKS.rings    ProcessPage, then the rings that a process's threads write to
//   PID-TICKS.log      full rings, appended unchanged
//   areas-PID-TICKS.rings  ChildPagesHeader, then child pages for the children that a process forks
// All are written through shared mappings or by single appends, so a killed process loses nothing
// that it had recorded. A file's space is allocated before the file is mapped: a full disk shows up
// as a failed call, never as a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/clock.h"
#include "wire/launchers.h"
#include "wire/trace_record.h"
#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint32_t kRecordingVersion = 1;
inline constexpr uint64_t kSessionMagic = 0x5353'4553'4d52'0a00;     // "\0\nRMSESS" on disk
inline constexpr uint64_t kProcessMagic = 0x434f'5250'4d52'0a00;     // "\0\nRMPROC"
inline constexpr uint64_t kNamesMagic = 0x454d'414e'4d52'0a00;       // "\0\nRMNAME"
inline constexpr uint64_t kChildPagesMagic = 0x5341'4552'4d52'0a00;  // "\0\nRMREAS"
inline constexpr uint32_t kRingMagic = 0x474e4952;                   // "RING"

inline constexpr size_t kPageSizeBytes = 4096;

// Counters of what is missing. Updated by atomic additions, possibly from several processes.
struct LossCounters {
  uint64_t events;
  uint64_t first_ticks;  // begin of the first lost event; 0: none lost
  uint64_t last_ticks;
  uint32_t error;  // errno of the first failure
  uint32_t names;  // paths that could not be stored; their events have no file
};
static_assert(sizeof(LossCounters) == 32);

struct SessionPage {
  uint64_t magic;    // kSessionMagic, written last
  uint32_t version;  // kRecordingVersion
  CounterSource counter;
  ClockSample first;        // taken when the session was created
  ClockSample last;         // taken when the session was last checked; counter_ticks 0: never
  LossCounters lost;        // of processes that could not create a file of their own
  uint64_t lost_processes;  // how many such processes there were
  uint32_t launcher_pid;    // 0: none, the library was preloaded by hand
  uint32_t levels;          // bit n: Level n is recorded
  uint32_t cores;           // CPUs that the launcher may use; 0: unknown
  uint32_t reserved[15];
  char host[256];      // zero-terminated
  char boot_id[40];    // zero-terminated; distinguishes machines of the same name
  char filters[3072];  // the globs, one per line: '+' include, '-' exclude; zero-terminated
};
static_assert(sizeof(SessionPage) <= kPageSizeBytes);
static_assert(std::is_trivially_copyable_v<SessionPage>);

enum class ProcessOrigin : uint32_t {
  kProgram = 0,  // the start of a program (exec)
  kFork = 1,     // a copy of its parent
};

// Who wrote a recording. A process under `millrace trace --all` may have one of each: its system
// calls recorded from outside, its library calls from inside. docs/design/all-mode.md says how they
// are matched.
enum class RecordedFrom : uint32_t {
  kInside = 0,   // the library in the program
  kOutside = 1,  // a process that traces its system calls
};

// The first page of a .rings file: one program image of one process.
struct ProcessPage {
  uint64_t magic;    // kProcessMagic, written last
  uint32_t version;  // kRecordingVersion
  uint32_t pid;
  uint32_t parent_pid;
  ProcessOrigin origin;
  int32_t rank;        // -1: unknown
  int32_t world_size;  // -1: unknown
  uint64_t start_ticks;
  ClockSample first;
  ClockSample last;  // updated whenever a ring is written to the log
  LossCounters lost;
  uint32_t ring_count;  // rings in this file
  uint32_t exited;      // 1: by exit or _exit; 2: by a signal; 0: still running, or its end was not
                        // seen
  int32_t exit_code;    // the signal number if a signal ended it
  NameId executable;
  NameId command_line;  // arguments joined by spaces, shortened to 4000 bytes
  NameId working_directory;
  uint64_t start_time;    // from /proc/PID/stat: distinguishes reused PIDs
  uint64_t major_faults;  // of the process, at its end
  uint64_t minor_faults;
  // Another rank's clock, to align hosts: its monotonic time minus ours, measured over MPI.
  int64_t peer_offset_ns[2];        // at MPI_Init, at MPI_Finalize
  uint64_t peer_uncertainty_ns[2];  // 0: not measured
  uint64_t peer_at_ns[2];           // our monotonic time of the measurement
  RecordedFrom recorded_from;
  RankOrigin rank_origin;  // all zero in older recordings
};
static_assert(sizeof(ProcessPage) <= kPageSizeBytes);
static_assert(std::is_trivially_copyable_v<ProcessPage>);

inline constexpr size_t kRingSizeBytes = 64 * 1024;

// The header of a ring, and of the chunk in the .log file that it becomes.
struct RingHeader {
  uint32_t magic;     // kRingMagic
  uint32_t ring;      // number of the ring within its process
  uint64_t sequence;  // how many times it was written to the log before. If a chunk of the log has
                      // the same sequence, the process was killed while writing it: the ring
                      // repeats the chunk
  uint32_t process;   // of the first event; a TraceContext slot changes it
  uint32_t thread;
  uint32_t slot_count;  // in a log: slots that follow. In a .rings file: always kRingSlots
  uint32_t in_use;      // 1: a thread writes to it
  uint64_t reserved[4];
};
static_assert(sizeof(RingHeader) == 64);
inline constexpr size_t kRingSlots = (kRingSizeBytes - sizeof(RingHeader)) / sizeof(TraceSlot);

struct Ring {
  RingHeader header;
  TraceSlot slots[kRingSlots];
};
static_assert(sizeof(Ring) == kRingSizeBytes);

// Where a ring is in its .rings file. The ProcessPage takes the first 64 KiB, so that everything
// can be mapped even if pages are that large.
constexpr uint64_t ring_offset(uint32_t ring) { return (uint64_t{ring} + 1) * kRingSizeBytes; }

// Creating a file costs more than recording a short-lived child. A process that forks repeatedly
// therefore creates one file with pages for many children, which inherit the mapping. A child page
// is laid out like a .rings file with one ring. Its recording is named areas-PID-TICKS@NUMBER;
// further files (a log, more rings) have that name.
struct ChildPagesHeader {
  uint64_t magic;       // kChildPagesMagic, written last
  uint32_t version;     // kRecordingVersion
  uint32_t page_count;  // how many fit into the file
  uint32_t taken;       // atomic count of children so far; may exceed page_count
  uint32_t process;     // PID in the file's name
  uint64_t ticks;       // TICKS in the file's name
  uint32_t reserved[8];
};
static_assert(sizeof(ChildPagesHeader) == 64);
inline constexpr uint64_t kChildPageSizeBytes = ring_offset(1);
constexpr uint64_t child_page_offset(uint32_t number) {
  return kRingSizeBytes + uint64_t{number} * kChildPageSizeBytes;
}

struct NamesHeader {
  uint64_t magic;    // kNamesMagic
  uint32_t version;  // kRecordingVersion
  uint32_t reserved;
  uint64_t end;  // where the next name goes, in bytes from the start of the file
  uint64_t reserved2[5];
};
static_assert(sizeof(NamesHeader) == 64);

inline constexpr uint32_t kNameFiltered = 1;  // the filters exclude this file

// At byte 8 * NameId of the file of names. No entry crosses a multiple of kNamesChunkBytes.
struct NameEntry {
  uint32_t length;  // bytes that follow, without the terminating zero
  uint32_t hash;    // name_hash of the bytes, upper half
  uint32_t flags;
  uint32_t reserved;
};
static_assert(sizeof(NameEntry) == 16);
inline constexpr size_t kNamesChunkBytes = 1 << 20;
inline constexpr size_t kNameLengthMax = 8192;  // longer names are cut

// The hash of a name. Its bits are specified, because processes of different builds share the
// table: FNV-1a over 8-byte words (the last one padded with zeros), seeded with the length and
// finished with the mixing step of splitmix64.
inline uint64_t name_hash(const char* text, size_t length) {
  uint64_t hash = 0xcbf29ce484222325u ^ length;
  while (length >= 8) {
    uint64_t word;
    __builtin_memcpy(&word, text, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    text += 8;
    length -= 8;
  }
  uint64_t tail = 0;
  for (size_t i = 0; i < length; ++i) {
    tail |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  }
  hash = (hash ^ tail) * 0xbf58476d1ce4e5b9u;
  hash ^= hash >> 27;
  hash *= 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

// names.index: levels of slots, each four times as large as the one before. A slot holds hash << 32
// | id, or 0 if it is free. A name is in one of kNameProbes consecutive slots of the first level,
// else of the second, and so on. Names are never removed.
inline constexpr size_t kNameIndexFirstSlots = 8192;
inline constexpr size_t kNameIndexLevels = 10;
inline constexpr size_t kNameProbes = 16;

}  // namespace millrace::wire
