// Lifeline: how a rank learns that another has died, whatever MPI and the launcher do about it.
//
// A star of TCP connections: every rank has one to rank 0. When a process ends, for whatever
// reason, the kernel closes its connection, and rank 0 notifies all others. One thread per rank
// sleeps in poll(2) for that, so a death is noticed even while a rank computes. It never calls MPI.
//
//   rank 0: open(), send invitation() to the others, admit()
//   others: join(invitation)
//
// The invitation contains a key that strangers on the network do not know. MPI distributes it.
//
// The thread also handles SIGTERM, unless the program handles it. Launchers send it to the ranks
// that are left, possibly before the news of the loss arrives, and a rank that ended at once could
// not say why. So the program ends 300 ms after the signal, or 3 s after it if a rank is lost.
//
// One rank reports a loss, the lowest that is left ("the speaker"), and the others end after it: as
// soon as one rank ends, a launcher ends all others, including the speaker.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "comm/comm.h"
#include "comm/connect.h"
#include "comm/lifeline/message.h"

namespace millrace::comm {

struct LifelineOptions {
  Rank rank = kFirstRank;
  uint32_t size = 1;
  bool one_host = true;                        // all ranks are on this host
  std::string interface;                       // of rank 0, if not one_host: see ListenOptions
  std::chrono::milliseconds patience{20'000};  // for the other ranks to connect
  std::chrono::milliseconds greeting_patience{10'000};  // see GreetingOptions
  std::chrono::milliseconds taking_time{250};           // before on_loss is called on the speaker
  // How long the others stay if they cannot see the speaker end. Longer than the second that Open
  // MPI leaves between SIGTERM and SIGKILL, and shorter than the delay of SIGTERM.
  std::chrono::milliseconds speaking_time{2000};
  bool takes_sigterm = false;
  LostRankFunction on_loss;
};

class Lifeline {
 public:
  static Result<std::unique_ptr<Lifeline>> open(const LifelineOptions& options);
  static Result<std::unique_ptr<Lifeline>> join(const LifelineOptions& options,
                                                const std::string& invitation);

  virtual ~Lifeline() = default;  // without leave() before, the others see this rank as lost

  // ---- rank 0 ----
  virtual std::string invitation() const = 0;
  virtual Status admit() = 0;  // waits for all others, and watches them from then on

  // ---- any thread ----

  // Enables on_loss. Call it only when all ranks know that they are connected: a job that fails to
  // connect has a better error to report.
  virtual void start_telling() = 0;

  // The first rank that ended without leave(). The same on all ranks, unless two ended at once.
  virtual std::optional<LostName> lost() const = 0;

  // Like lost(), but the caller reports the loss, and on_loss will not be called any more. If
  // on_loss is running, waits for it; so on_loss must not call this.
  virtual std::optional<LostName> take_lost() = 0;

  // After a loss, for a rank that is about to end and is not the speaker: waits until the speaker
  // has ended, at most speaking_time.
  virtual void await_speaker() = 0;

  // The last call. Waits until all ranks have made it (true) or a rank is lost (false).
  virtual bool leave() = 0;
};

// The error that reports a lost rank.
Error loss_error(const LostName& lost);

}  // namespace millrace::comm
