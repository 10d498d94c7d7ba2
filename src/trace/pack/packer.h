// Packer: turns the recording of a session into a packed trace, while its programs run or later.
//
// May be run repeatedly. pack_available() packs the part of the logs that will not change any more,
// and frees its space. finish() packs everything of processes that have ended, and deletes their
// files. A commit makes each step durable in the packed trace before any part of the recording is
// deleted. Whenever packing stops, the file and the recording together hold every event exactly
// once, and another packer can continue. If the disk is full, nothing is deleted and the recording
// stays readable.
//
// Not thread-safe. A lock on the packed trace keeps other packers out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::trace {

struct PackOptions {
  // Threads that encode. With 1, the calling thread does everything.
  size_t threads = 1;
  // Assume that processes on other hosts have exited. Only the user can know.
  bool others_ended = false;
  // pack_available() skips a log until it has grown by this much, because small blocks compress
  // badly.
  uint64_t batch_bytes = 1 << 20;
  // Polled between blocks. If it returns true, packing fails with Errc::kCancelled and the
  // recording is kept.
  std::function<bool()> stopped;
};

struct RunningProcess {
  uint32_t pid = 0;
  std::string command;
  std::string host;  // empty: this host
};

struct PackOutcome {
  uint64_t events = 0;        // that this call packed
  uint64_t packed_bytes = 0;  // current size of the packed trace
  // Processes that are still recording or, if there are none, that may still start.
  std::vector<RunningProcess> running;
  std::vector<std::string> problems;  // what could not be read, like Trace::problems()
  bool session_removed = false;       // the whole recording was deleted
};

class Packer {
 public:
  // Creates `output` or continues it. Fails if it belongs to another recording, or if another
  // packer is using it.
  static Result<Packer> open(const std::filesystem::path& session_directory,
                             const std::filesystem::path& output, const PackOptions& options = {});

  // Next to the session's directory, with its name: DIR/NAME.mrt, or DIR/NAME-2.mrt if that belongs
  // to another recording.
  static std::filesystem::path default_output(const std::filesystem::path& session_directory);

  Packer(Packer&&) noexcept;
  Packer& operator=(Packer&&) noexcept;
  ~Packer();

  Result<PackOutcome> pack_available();
  Result<PackOutcome> finish();

 private:
  struct State;
  explicit Packer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::trace
