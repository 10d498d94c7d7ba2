// Packer: turns a session's recording into a packed file, while its programs run or afterwards.
//
// May be run again and again: pack_available() takes the part of the logs that will not change any
// more, and gives its space back; finish() takes all of the processes that have ended, and removes
// their files. Each step is made certain in the packed file (a commit) before anything of the
// recording is removed: whenever it is stopped, file and recording together hold every event once,
// and another packer goes on from there. If the disk is full nothing is removed, and the recording
// can be read as it is.
//
// Not thread-safe. A lock on the packed file keeps two packers apart.
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
  // Threads that encode; 1 packs on the caller's alone.
  size_t threads = 1;
  // Take processes of other hosts as ended: only their user can know.
  bool others_ended = false;
  // pack_available() leaves a log alone until it has grown by this much: small blocks pack badly.
  uint64_t batch_bytes = 1 << 20;
  // Asked between blocks. Once it says yes, packing ends with Errc::kCancelled, and the recording
  // stays.
  std::function<bool()> stopped;
};

struct RunningProcess {
  uint32_t pid = 0;
  std::string command;
  std::string host;  // empty: this one
};

struct PackOutcome {
  uint64_t events = 0;        // packed by this call
  uint64_t packed_bytes = 0;  // size of the packed file now
  // Whose recordings stay; where none has one that runs, those that may yet begin one.
  std::vector<RunningProcess> running;
  std::vector<std::string> problems;  // what could not be read, as Trace::problems()
  bool session_removed = false;       // nothing of the recording is left
};

class Packer {
 public:
  // Begins `output`, or goes on with it. Fails where it holds another recording, or another packer
  // is at work on it.
  static Result<Packer> open(const std::filesystem::path& session_directory,
                             const std::filesystem::path& output, const PackOptions& options = {});

  // Beside the session's directory, with its name: DIR/NAME.mrt, or DIR/NAME-2.mrt where that is
  // of another recording.
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
