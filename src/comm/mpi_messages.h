// MpiPost: the messages of one rank over MPI, moved by a thread of its own.
//
// Senders call MPI themselves, so that a short message leaves at once. All else is the thread's: it
// takes whatever has come, whether or not it is waited for, so that no sender depends on what this
// rank's program does. When nothing moves it sleeps, for longer and longer up to a bound, on the
// doorbell that the other ranks of its host ring. docs/design/ranks.md has the reasons,
// docs/formats/messages.md the bytes.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "comm/doorbell.h"
#include "comm/lifeline.h"
#include "comm/mailbox.h"

namespace millrace::comm {

enum class WireKind : int;

struct MpiPostOptions {
  MPI_Comm mpi = MPI_COMM_NULL;  // this post's alone
  Rank rank = kFirstRank;
  uint32_t size = 1;
  size_t piece_bytes = 0;
  std::shared_ptr<Lifeline> lifeline;          // shared with the Comm; null: switched off
  std::vector<std::optional<Doorbell>> bells;  // by rank; none: a rank of another host
};

class MpiPost {
 public:
  MpiPost(MpiPostOptions options, Doorbell own_bell);
  ~MpiPost() { stop(); }

  Status start();

  // ---- as Messages; any thread ----
  Ticket send(Rank to, MessageTag tag, ByteView bytes);
  Ticket receive(Rank from, MessageTag tag);
  Ticket ask(Rank whom, MessageTag tag, std::string question);
  void serve(MessageTag tag, Messages::Answer answer);
  Status wait(Ticket ticket, std::chrono::nanoseconds patience);
  Result<std::string> take(Ticket ticket);
  void give_back(std::string bytes);
  Mailbox& mailbox() { return mailbox_; }
  const MpiPostOptions& options() const { return options_; }

  // ---- the Comm ----

  // This rank has failed: the others' messages fail with that, whatever they wait for.
  void tell_failure(const Error& error);

  // Whether another rank has told its failure, so that what fails on this one is no news.
  bool was_told() const { return told_; }

  // Finishes what was sent, gives up what is waited for, and tells the others. What they send from
  // now on is taken and dropped.
  void close();

  // From now on no MPI is called.
  void stop();

 private:
  // One message in either direction, for as long as MPI reads or writes its bytes.
  struct Job {
    Rank peer = kFirstRank;
    size_t open_requests = 0;
    std::optional<Ticket> ticket;      // of a send
    std::string owned;                 // what is sent, where it is not the caller's
    uint64_t announcement[2] = {};     // size and kind of what comes in pieces
    std::shared_ptr<Arrival> arrival;  // of what comes; shared with the mailbox
    uint64_t begun_bytes = 0;          // of what comes in pieces
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
  std::mutex asking_;              // answers come in the order of the questions
  std::mutex posting_;             // the pieces of a message follow each other
  std::mutex handing_;             // of posted_
  std::vector<Request> posted_;    // by callers, not yet seen by the thread
  std::mutex keeping_;             // of kept_
  std::vector<std::string> kept_;  // given back, to be filled again
  std::atomic<int> mpi_error_ = MPI_SUCCESS;
  std::atomic<bool> told_ = false;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> stops_ = false;
  std::mutex stopping_;
  std::thread thread_;

  // Of the thread alone.
  std::vector<MPI_Request> requests_;
  std::vector<JobPointer> jobs_;       // of the requests, by index
  size_t open_receives_ = 0;           // of the requests: what MPI moves, step by step
  std::vector<int> done_indices_;      // room for MPI_Testsome
  std::vector<JobPointer> in_pieces_;  // what is coming from a rank in pieces, by rank
  std::optional<std::chrono::nanoseconds> lost_at_;
  bool gave_up_ = false;
};

std::unique_ptr<Messages> mpi_messages(std::shared_ptr<MpiPost> post);

}  // namespace millrace::comm
