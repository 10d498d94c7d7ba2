// MpiPost: the messages of one rank over MPI, moved by its own thread.
//
// Senders call MPI themselves, so that a short message leaves at once. The thread does the rest. It
// takes whatever arrives, even if nobody waits for it, so that no sender depends on what this
// rank's program does. When nothing moves, it sleeps for longer and longer, up to a limit, on the
// doorbell that the other ranks of its host ring. docs/design/ranks.md has the reasons,
// docs/formats/messages.md the bytes.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/concurrency/mutex.h"
#include "comm/doorbell.h"
#include "comm/lifeline/lifeline.h"
#include "comm/mailbox.h"

namespace millrace::comm {

enum class WireKind : int;

struct MpiPostOptions {
  MPI_Comm mpi = MPI_COMM_NULL;  // used by this post only
  Rank rank = kFirstRank;
  uint32_t size = 1;
  size_t piece_bytes = 0;
  std::shared_ptr<Lifeline> lifeline;          // shared with the Comm; null if switched off
  std::vector<std::optional<Doorbell>> bells;  // by rank; none for ranks on other hosts
};

class MpiPost {
 public:
  MpiPost(MpiPostOptions options, Doorbell own_bell);
  ~MpiPost() { stop(); }

  Status start();

  // ---- as in Messages; any thread ----
  Ticket send(Rank to, MessageTag tag, ByteView bytes);
  Ticket receive(Rank from, MessageTag tag);
  Ticket ask(Rank whom, MessageTag tag, std::string question);
  void serve(MessageTag tag, Messages::Answer answer);
  Status wait(Ticket ticket, std::chrono::nanoseconds patience);
  Result<std::string> take(Ticket ticket);
  void give_back(std::string bytes);
  Mailbox& mailbox() { return mailbox_; }
  const MpiPostOptions& options() const { return options_; }

  // ---- for the Comm ----

  // This rank has failed: all messages of the other ranks fail with its error.
  void tell_failure(const Error& error);

  // Whether another rank has reported a failure, so that failures on this one are a consequence.
  bool was_told() const { return told_; }

  // Completes sends, cancels receives, and notifies the others. What they send from now on is
  // received and dropped.
  void close();

  // Calls no MPI from now on.
  void stop();

 private:
  // One message in either direction, for as long as MPI reads or writes its bytes.
  struct Job {
    Rank peer = kFirstRank;
    size_t open_requests = 0;
    std::optional<Ticket> ticket;      // of a send
    std::string owned;                 // bytes to send that do not belong to the caller
    uint64_t announcement[2] = {};     // size and kind of a message in pieces
    std::shared_ptr<Arrival> arrival;  // of a receive; shared with the mailbox
    uint64_t begun_bytes = 0;          // received or being received, of a message in pieces
  };
  using JobPointer = std::shared_ptr<Job>;  // shared by the requests of its pieces
  struct Request {
    MPI_Request mpi = MPI_REQUEST_NULL;
    JobPointer job;
  };

  Status make_room_for(std::string& bytes, uint64_t size_bytes);
  void post(WireKind kind, MessageTag tag, ByteView bytes, const JobPointer& job);
  void post_piece(WireKind kind, MessageTag tag, ByteView bytes, const JobPointer& job,
                  std::vector<Request>& open);
  bool has_bell(Rank rank) const;
  void ring(Rank rank) const;

  // ---- the thread ----
  void run();
  void pause(uint32_t rings_seen, uint32_t& quiet_rounds);
  void ring_for_next_step() const;
  std::chrono::nanoseconds longest_pause() const;
  bool take_arrivals();
  void begin_arrival(MPI_Message message, const MPI_Status& status);
  void announce_arrival(MPI_Message message, const MPI_Status& status);
  void continue_arrival(MPI_Message message, const MPI_Status& status, size_t size_bytes);
  void receive_into(MPI_Message message, std::byte* at, size_t size_bytes, const JobPointer& job);
  void finish_if_whole(const JobPointer& job);
  std::string receive_text(MPI_Message message, size_t size_bytes);
  bool test_requests();
  bool answer_questions();
  void look_for_failures();
  void adopt_sends();
  void check(int code);

  MpiPostOptions options_;
  Doorbell own_bell_;
  bool all_have_bells_ = true;
  Mailbox mailbox_;
  Mutex asking_;   // answers come in the order of the questions
  Mutex posting_;  // keeps the pieces of a message together
  Mutex handing_;
  std::vector<Request> posted_ GUARDED_BY(handing_);  // by callers, not yet seen by the thread
  Mutex keeping_;
  std::vector<std::string> kept_ GUARDED_BY(keeping_);  // memory given back, to be reused
  std::atomic<int> mpi_error_ = MPI_SUCCESS;
  std::atomic<bool> told_ = false;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> stops_ = false;
  Mutex stopping_;
  std::thread thread_;

  // Used only by the thread.
  std::vector<MPI_Request> requests_;
  std::vector<JobPointer> jobs_;       // of the requests, by index
  size_t open_receives_ = 0;           // how many of the requests are receives
  std::vector<int> done_indices_;      // for MPI_Testsome
  std::vector<JobPointer> in_pieces_;  // by rank: the message that it is sending in pieces
  std::optional<std::chrono::nanoseconds> lost_at_;
  bool gave_up_ = false;
};

std::unique_ptr<Messages> mpi_messages(std::shared_ptr<MpiPost> post);

}  // namespace millrace::comm
