// Lifeline: how a rank learns that another has died, whatever MPI and the launcher do about it.
//
// A star of TCP connections: every rank holds one to rank 0. A process that ends, however it does,
// has its connections closed by the kernel, and rank 0 tells all others. One thread a rank sleeps
// in poll(2) for that, so that it is noticed also while a rank computes; it calls no MPI.
//
//   rank 0: open(), bring invitation() to the others, admit()
//   others: join(invitation)
//
// The invitation has a key that the ranks know and strangers on the network do not: MPI brings it.
//
// The thread also takes SIGTERM, where the program has no use of its own for it: launchers send it
// to the ranks that are left, in a race with the news, and a rank that ended on the spot could not
// say why. It ends the program 300 ms later, or 3 s later where a rank is lost.
//
// One rank speaks of a loss, the lowest that is left, and the others go after it: the first that
// goes makes a launcher end the rest at once, among them the one that has something to say.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "comm/comm.h"
#include "comm/connect.h"
#include "comm/lifeline_message.h"

namespace millrace::comm {

struct LifelineOptions {
  Rank rank = kFirstRank;
  uint32_t size = 1;
  bool one_host = true;                        // all ranks are processes of this host
  std::string interface;                       // rank 0's, where they are not: see ListenOptions
  std::chrono::milliseconds patience{20'000};  // for the others to come
  std::chrono::milliseconds greeting_patience{10'000};  // see GreetingOptions
  std::chrono::milliseconds taking_time{250};  // before on_loss is called on the rank that speaks
  // How long the others stay where they cannot see it go. Longer than the second that Open MPI
  // leaves between SIGTERM and SIGKILL, and shorter than SIGTERM is held.
  std::chrono::milliseconds speaking_time{2000};
  bool takes_sigterm = false;
  LostRankFunction on_loss;
};

class Lifeline {
 public:
  static Result<std::unique_ptr<Lifeline>> open(const LifelineOptions& options);
  static Result<std::unique_ptr<Lifeline>> join(const LifelineOptions& options,
                                                const std::string& invitation);

  virtual ~Lifeline() = default;  // closes the connections; without leave(), a loss to the others

  // ---- rank 0 ----
  virtual std::string invitation() const = 0;
  virtual Status admit() = 0;  // waits for all others; from then on they are watched

  // ---- any thread ----

  // From now on on_loss is called: not before all ranks know that they are connected, since a job
  // that could not connect has a better sentence to tell.
  virtual void start_telling() = 0;

  // The first rank that went without leave(); the same on all ranks unless two went at once.
  virtual std::optional<RankName> lost() const = 0;

  // As lost(), for the caller to tell: on_loss is then not called any more. Waits where it is being
  // called, and must not be called from there.
  virtual std::optional<RankName> take_lost() = 0;

  // After a loss, on a rank that does not speak and is about to go: waits until the one that does
  // has gone, or could have.
  virtual void await_speaker() = 0;

  // The last call. Waits until all ranks have made it, or a rank is lost: then false.
  virtual bool leave() = 0;
};

// The sentence about a rank that is lost.
Error loss_error(const RankName& lost);

}  // namespace millrace::comm
