// LocalMessages: Messages between ranks that are threads of one process, or of one rank to itself.
//
// A send is a copy, done at once. Each rank that serves has a thread that answers, so that an
// answer is made on no rank's own thread, as over MPI.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "comm/mailbox.h"

namespace millrace::comm {

class LocalPost {
 public:
  explicit LocalPost(uint32_t size);
  ~LocalPost();

  uint32_t size() const { return static_cast<uint32_t>(stations_.size()); }

  // The rank has failed: what is under way fails on all of them, with this error.
  void fail(Rank failed, const Error& error);

  // Whether another rank has failed, so that what fails on this one is no news.
  bool was_told(Rank rank) const { return stations_[index_of(rank)]->told; }

  // The rank takes part no more.
  void end(Rank rank);

  Mailbox& mailbox(Rank rank) { return stations_[index_of(rank)]->mailbox; }
  void deliver(Rank to, const Channel& channel, std::string bytes);
  void serve(Rank rank, MessageTag tag, Messages::Answer answer);

 private:
  struct Station {
    Station(Rank rank, uint32_t size) : mailbox(rank, size) {}

    Mailbox mailbox;
    std::atomic<bool> told = false;
    std::mutex mutex;  // of what follows
    std::thread answers;
    bool ended = false;
  };

  void answer_questions(Rank rank);

  std::vector<std::unique_ptr<Station>> stations_;  // by rank
};

// `post` is shared by the ranks of the job, whichever goes last.
std::unique_ptr<Messages> local_messages(std::shared_ptr<LocalPost> post, Rank rank);

}  // namespace millrace::comm
