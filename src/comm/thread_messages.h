// ThreadMessages: Messages between ranks that are threads of one process, or of one rank to itself.
//
// A send is a copy, done at once. Each rank that serves has a thread that answers, so that answers
// are not computed on a rank's own thread, as over MPI.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/concurrency/mutex.h"
#include "comm/mailbox.h"

namespace millrace::comm {

class ThreadPost {
 public:
  explicit ThreadPost(uint32_t size);
  ~ThreadPost();

  uint32_t size() const { return static_cast<uint32_t>(stations_.size()); }

  // The rank has failed: everything in flight fails on all ranks with this error.
  void fail(Rank failed, const Error& error);

  // Whether another rank has failed, so that failures on this one are a consequence.
  bool was_told(Rank rank) const { return stations_[index_of(rank)]->told; }

  // The rank no longer takes part.
  void end(Rank rank);

  Mailbox& mailbox(Rank rank) { return stations_[index_of(rank)]->mailbox; }
  void deliver(Rank to, const Channel& channel, std::string bytes);
  void serve(Rank rank, MessageTag tag, Messages::Answer answer);

 private:
  struct Station {
    Station(Rank rank, uint32_t size) : mailbox(rank, size) {}

    Mailbox mailbox;
    std::atomic<bool> told = false;
    Mutex mutex;
    std::thread answers GUARDED_BY(mutex);
    bool ended GUARDED_BY(mutex) = false;
  };

  void answer_questions(Rank rank);

  std::vector<std::unique_ptr<Station>> stations_;  // by rank
};

// The ranks of the job share `post`; the last one destroys it.
std::unique_ptr<Messages> thread_messages(std::shared_ptr<ThreadPost> post, Rank rank);

}  // namespace millrace::comm
