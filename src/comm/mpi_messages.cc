#include "comm/mpi_messages.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread.h"
#include "base/system/clock.h"
#include "comm/mpi_calls.h"
#include "comm/proposal.h"

namespace millrace::comm {

// In the bits of the MPI tag above our own tag.
enum class WireKind : int { kMessage, kQuestion, kAnswer, kAnnouncement, kPiece, kEnd, kFailure };

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr int kTagBits = 15;
static_assert(1u << kTagBits == kTagLimit);

// How often the thread polls MPI in a row before it sleeps. It does not use sched_yield: on a busy
// core that gives away a time slice of milliseconds, while a sleep lasts only as long as it says.
constexpr uint32_t kEagerRounds = 20;
constexpr uint32_t kEagerRoundsAwaitingRing = 4;
constexpr nanoseconds kFirstPause = 5us;               // then twice as long each time
constexpr nanoseconds kFirstPauseAwaitingRing = 20us;  // then four times as long
constexpr nanoseconds kLongestPauseMoving = 200us;  // while bytes move, in steps that we must drive
constexpr nanoseconds kLongestPauseSent = 1ms;      // until a rank that can ring takes a message
constexpr nanoseconds kLongestPauseBlind = 1ms;     // if a sender cannot ring
constexpr nanoseconds kLongestPauseWaiting = 20ms;  // if all can ring: to notice a dead rank
constexpr nanoseconds kLongestPauseIdle = 100ms;

constexpr size_t kTestedBytesMax = size_t{64} << 10;  // MPIs send at most this much at once

// Smaller buffers are cheap to allocate; larger ones would hold too much memory.
constexpr size_t kKeptBytesMin = size_t{32} << 10;
constexpr size_t kKeptBytesMax = size_t{16} << 20;
constexpr size_t kKeptCountMax = 64;

constexpr auto kNewsTime = 500ms;          // MPI may fail before the lifeline says why
constexpr auto kGraceTime = 1s;            // for sends to the remaining ranks after a loss
constexpr auto kFlushTime = 30s;           // for sends that nobody waited for
constexpr size_t kFailureBytesMax = 3000;  // short enough for MPI to take it at once
constexpr int kArrivalsPerRound = 64;      // then the requests get their turn

int mpi_tag(WireKind kind, MessageTag tag) {
  return static_cast<int>(kind) << kTagBits | static_cast<int>(tag);
}
WireKind kind_of(int mpi_tag) { return static_cast<WireKind>(mpi_tag >> kTagBits); }
MessageTag tag_of(int mpi_tag) { return static_cast<MessageTag>(mpi_tag & ((1 << kTagBits) - 1)); }
int number_of(Rank rank) { return static_cast<int>(index_of(rank)); }

// For buffers that MPI may still write to after the Comm is destroyed. Never freed.
void keep_forever(std::shared_ptr<void> bytes) {
  static Mutex mutex;
  static std::vector<std::shared_ptr<void>> kept;
  const MutexLock lock(mutex);
  kept.push_back(std::move(bytes));
}

}  // namespace

MpiPost::MpiPost(MpiPostOptions options, Doorbell own_bell)
    : options_(std::move(options)),
      own_bell_(std::move(own_bell)),
      mailbox_(options_.rank, options_.size),
      in_pieces_(options_.size) {
  for (const auto& bell : options_.bells) all_have_bells_ = all_have_bells_ && bell.has_value();
}

Status MpiPost::start() {
  ASSIGN_OR_RETURN(thread_, start_thread("mr-messages", [this] { run(); }));
  return {};
}

// ---- sending: any thread ----

Ticket MpiPost::send(Rank to, MessageTag tag, ByteView bytes) {
  const Ticket ticket = mailbox_.open_send(to, tag);
  if (mailbox_.has_failed(ticket)) return ticket;
  auto job = std::make_shared<Job>();
  job->peer = to;
  job->ticket = ticket;
  post(WireKind::kMessage, tag, bytes, job);
  return ticket;
}

Ticket MpiPost::receive(Rank from, MessageTag tag) {
  const Ticket ticket =
      mailbox_.open_receive({.from = from, .kind = MessageKind::kMessage, .tag = tag});
  // Ranks that can ring will; for the others the thread must poll more often from now on.
  if (!all_have_bells_) own_bell_.ring();
  return ticket;
}

Ticket MpiPost::ask(Rank whom, MessageTag tag, std::string question) {
  const MutexLock lock(asking_);
  const Channel answers = {.from = whom, .kind = MessageKind::kAnswer, .tag = tag};
  const Ticket ticket = mailbox_.open_receive(answers);
  if (mailbox_.has_failed(ticket)) return ticket;
  auto job = std::make_shared<Job>();
  job->peer = whom;
  job->owned = std::move(question);
  post(WireKind::kQuestion, tag, bytes_of(job->owned), job);
  if (!all_have_bells_) own_bell_.ring();
  return ticket;
}

void MpiPost::post(WireKind kind, MessageTag tag, ByteView bytes, const JobPointer& job) {
  std::vector<Request> open;
  {
    const MutexLock lock(posting_);
    if (stops_) return;
    if (bytes.size() <= options_.piece_bytes) {
      post_piece(kind, tag, bytes, job, open);
    } else {
      job->announcement[0] = bytes.size();
      job->announcement[1] = static_cast<uint64_t>(kind);
      post_piece(WireKind::kAnnouncement, tag, std::as_bytes(std::span(job->announcement)), job,
                 open);
      for (size_t at = 0; at < bytes.size(); at += options_.piece_bytes) {
        const size_t length = std::min(options_.piece_bytes, bytes.size() - at);
        post_piece(WireKind::kPiece, tag, bytes.subspan(at, length), job, open);
      }
    }
    job->open_requests = open.size();
    if (!open.empty()) {
      const MutexLock hand(handing_);
      posted_.insert(posted_.end(), open.begin(), open.end());
    }
  }
  if (open.empty()) {
    if (job->ticket) mailbox_.finish_send(*job->ticket);
  } else if (!has_bell(job->peer)) {
    own_bell_.ring();  // a peer that can ring does so when it takes the message
  }
  ring(job->peer);
}

void MpiPost::post_piece(WireKind kind, MessageTag tag, ByteView bytes, const JobPointer& job,
                         std::vector<Request>& open) {
  Request request{.job = job};
  int code = MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, number_of(job->peer),
                       mpi_tag(kind, tag), options_.mpi, &request.mpi);
  int done = 0;
  // A long send is not done before its receiver has taken it. Testing it would make this caller
  // drive MPI and do the thread's work.
  if (code == MPI_SUCCESS && bytes.size() < kTestedBytesMax) {
    code = MPI_Test(&request.mpi, &done, MPI_STATUS_IGNORE);
  }
  check(code);
  if (code == MPI_SUCCESS && done != 0) return;
  open.push_back(std::move(request));
}

bool MpiPost::has_bell(Rank rank) const {
  return rank == options_.rank || options_.bells[index_of(rank)].has_value();
}

void MpiPost::ring(Rank rank) const {
  if (rank == options_.rank) return own_bell_.ring();
  if (const auto& bell = options_.bells[index_of(rank)]) bell->ring();
}

void MpiPost::check(int code) {
  if (code == MPI_SUCCESS) return;
  mpi_error_ = code;
  own_bell_.ring();
}

void MpiPost::serve(MessageTag tag, Messages::Answer answer) {
  mailbox_.serve(tag, std::move(answer));
  own_bell_.ring();
}

// ---- memory ----

void MpiPost::give_back(std::string bytes) {
  if (bytes.capacity() < kKeptBytesMin || bytes.capacity() > kKeptBytesMax) return;
  const MutexLock lock(keeping_);
  if (kept_.size() < kKeptCountMax) kept_.push_back(std::move(bytes));
}

// Reuses a kept buffer that is long enough and at most four times as long; otherwise allocates.
Status MpiPost::make_room_for(std::string& bytes, uint64_t size_bytes) {
  if (size_bytes >= kKeptBytesMin) {
    const MutexLock lock(keeping_);
    const auto fits = [size_bytes](const std::string& kept) {
      return kept.capacity() >= size_bytes && kept.capacity() / 4 <= size_bytes;
    };
    const auto kept = std::find_if(kept_.rbegin(), kept_.rend(), fits);
    if (kept != kept_.rend()) {
      bytes = std::move(*kept);
      std::swap(*kept, kept_.back());
      kept_.pop_back();
    } else if (kept_.size() == kKeptCountMax) {
      kept_.erase(kept_.begin());  // the oldest: messages of its length no longer come
    }
  }
  return make_room(bytes, size_bytes);
}

// ---- waiting: any thread ----

// The caller learns of a lost rank from this error, so on_loss need not report it.
template <typename Outcome>
static Outcome noted(Outcome outcome, const std::shared_ptr<Lifeline>& lifeline) {
  if (!outcome.ok() && lifeline && outcome.error().code() != Errc::kTimeout) {
    static_cast<void>(lifeline->take_lost());
  }
  return outcome;
}

Status MpiPost::wait(Ticket ticket, nanoseconds patience) {
  return noted(mailbox_.wait(ticket, patience), options_.lifeline);
}

Result<std::string> MpiPost::take(Ticket ticket) {
  return noted(mailbox_.take(ticket), options_.lifeline);
}

// ---- the thread ----

void MpiPost::run() {
  prctl(PR_SET_TIMERSLACK, 1);  // otherwise a pause of 5 us lasts 55
  ask_for_short_slices();
  uint32_t quiet_rounds = 0;
  while (!stops_) {
    const uint32_t rings_seen = own_bell_.count();
    adopt_sends();
    bool moved = take_arrivals();
    moved = test_requests() || moved;
    moved = answer_questions() || moved;
    look_for_failures();
    if (moved) {
      quiet_rounds = 0;
    } else {
      pause(rings_seen, quiet_rounds);
    }
  }
}

void MpiPost::pause(uint32_t rings_seen, uint32_t& quiet_rounds) {
  // Whatever happens next begins with a ring, so frequent polling would only take the core from
  // those who compute, or from the rank that is waited for. But some polling is needed: a thread
  // that loses its core inside MPI can hold back what the ring announced.
  const bool awaits_ring = all_have_bells_ && open_receives_ == 0;
  const uint32_t eager_rounds = awaits_ring ? kEagerRoundsAwaitingRing : kEagerRounds;
  if (++quiet_rounds <= eager_rounds) return;
  const uint32_t pauses = std::min<uint32_t>(quiet_rounds - eager_rounds - 1, 10);
  const nanoseconds length =
      awaits_ring ? kFirstPauseAwaitingRing * (1 << 2 * pauses) : kFirstPause * (1 << pauses);
  ring_for_next_step();
  own_bell_.wait(rings_seen, std::min(length, longest_pause()));
  if (own_bell_.count() != rings_seen) quiet_rounds = 0;
}

// MPI receives long messages in steps, and the sender must make the next one.
void MpiPost::ring_for_next_step() const {
  if (open_receives_ == 0) return;
  for (const JobPointer& job : jobs_) {
    if (job->arrival) ring(job->peer);
  }
}

nanoseconds MpiPost::longest_pause() const {
  if (open_receives_ > 0 && mpi_error_ == MPI_SUCCESS) return kLongestPauseMoving;
  if (!requests_.empty() && mpi_error_ == MPI_SUCCESS) {
    return all_have_bells_ ? kLongestPauseSent : kLongestPauseMoving;
  }
  const Mailbox::Expects expects = mailbox_.expects();
  if (expects == Mailbox::Expects::kNothing) return kLongestPauseIdle;
  if (!all_have_bells_) return kLongestPauseBlind;
  return expects == Mailbox::Expects::kQuestions ? kLongestPauseIdle : kLongestPauseWaiting;
}

void MpiPost::adopt_sends() {
  const MutexLock lock(handing_);
  for (Request& request : posted_) {
    requests_.push_back(request.mpi);
    jobs_.push_back(std::move(request.job));
  }
  posted_.clear();
}

bool MpiPost::take_arrivals() {
  int taken = 0;
  for (; taken < kArrivalsPerRound && mpi_error_ == MPI_SUCCESS; ++taken) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, options_.mpi, &found, &message, &status));
    if (found == 0) break;
    begin_arrival(message, status);
  }
  return taken > 0;
}

void MpiPost::begin_arrival(MPI_Message message, const MPI_Status& status) {
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  const auto size_bytes = static_cast<size_t>(count);
  const Rank from{static_cast<uint32_t>(status.MPI_SOURCE)};
  const WireKind kind = kind_of(status.MPI_TAG);
  switch (kind) {
    case WireKind::kMessage:
    case WireKind::kQuestion:
    case WireKind::kAnswer: {
      auto job = std::make_shared<Job>();
      job->peer = from;
      job->arrival = mailbox_.begin(
          {.from = from, .kind = static_cast<MessageKind>(kind), .tag = tag_of(status.MPI_TAG)});
      if (const Status room = make_room_for(job->arrival->bytes, size_bytes); !room.ok()) {
        return mailbox_.fail(named(room.error(), options_.rank, options_.size));
      }
      auto* at = reinterpret_cast<std::byte*>(job->arrival->bytes.data());
      receive_into(message, at, size_bytes, job);
      return finish_if_whole(job);
    }
    case WireKind::kAnnouncement:
      return announce_arrival(message, status);
    case WireKind::kPiece:
      return continue_arrival(message, status, size_bytes);
    case WireKind::kEnd:
      receive_text(message, size_bytes);
      return mailbox_.rank_ended(from);
    case WireKind::kFailure: {
      std::string text = receive_text(message, size_bytes);
      const auto code = text.empty() ? Errc::kIo : static_cast<Errc>(text[0]);
      told_ = true;
      return mailbox_.fail(
          named(Error(code, text.substr(std::min<size_t>(1, text.size()))), from, options_.size));
    }
  }
}

void MpiPost::announce_arrival(MPI_Message message, const MPI_Status& status) {
  const std::string text = receive_text(message, sizeof(Job::announcement));
  auto job = std::make_shared<Job>();
  std::memcpy(job->announcement, text.data(), sizeof(job->announcement));
  job->peer = Rank{static_cast<uint32_t>(status.MPI_SOURCE)};
  job->arrival = mailbox_.begin({.from = job->peer,
                                 .kind = static_cast<MessageKind>(job->announcement[1]),
                                 .tag = tag_of(status.MPI_TAG)});
  const Status room = make_room_for(job->arrival->bytes, job->announcement[0]);
  if (!room.ok()) mailbox_.fail(named(room.error(), options_.rank, options_.size));
  in_pieces_[index_of(job->peer)] = job;
}

void MpiPost::continue_arrival(MPI_Message message, const MPI_Status& status, size_t size_bytes) {
  const JobPointer job = in_pieces_[static_cast<size_t>(status.MPI_SOURCE)];
  // If there was no memory for it, everything has failed already, and the piece stays in MPI.
  if (!job || job->arrival->bytes.size() - job->begun_bytes < size_bytes) return;
  auto* at = reinterpret_cast<std::byte*>(job->arrival->bytes.data()) + job->begun_bytes;
  job->begun_bytes += size_bytes;
  receive_into(message, at, size_bytes, job);
  if (job->begun_bytes < job->arrival->bytes.size()) return;
  in_pieces_[static_cast<size_t>(status.MPI_SOURCE)].reset();
  finish_if_whole(job);
}

void MpiPost::receive_into(MPI_Message message, std::byte* at, size_t size_bytes,
                           const JobPointer& job) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Imrecv(at, static_cast<int>(size_bytes), MPI_BYTE, &message, &request);
  int done = 0;
  if (code == MPI_SUCCESS) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  check(code);
  if (code == MPI_SUCCESS && done != 0) return;
  ++job->open_requests;
  ++open_receives_;
  requests_.push_back(request);
  jobs_.push_back(job);
  ring(job->peer);  // the sender must make the next step
}

// Receives a short message, which MPI already has completely.
std::string MpiPost::receive_text(MPI_Message message, size_t size_bytes) {
  std::string text(size_bytes, '\0');
  check(
      MPI_Mrecv(text.data(), static_cast<int>(size_bytes), MPI_BYTE, &message, MPI_STATUS_IGNORE));
  return text;
}

void MpiPost::finish_if_whole(const JobPointer& job) {
  if (job->open_requests > 0) return;
  if (job->ticket) mailbox_.finish_send(*job->ticket);
  if (!job->arrival || in_pieces_[index_of(job->peer)] == job) return;
  mailbox_.complete(job->arrival);
  ring(job->peer);  // its send may now be done too
}

bool MpiPost::test_requests() {
  if (requests_.empty() || mpi_error_ != MPI_SUCCESS) return false;
  int done_count = 0;
  done_indices_.resize(requests_.size());
  check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done_count,
                     done_indices_.data(), MPI_STATUSES_IGNORE));
  if (done_count == MPI_UNDEFINED || done_count <= 0 || mpi_error_ != MPI_SUCCESS) return false;
  const std::span<int> done = std::span(done_indices_).first(static_cast<size_t>(done_count));
  std::sort(done.begin(), done.end());
  for (const int index : done) {
    const JobPointer& job = jobs_[static_cast<size_t>(index)];
    --job->open_requests;
    if (job->arrival) --open_receives_;
    finish_if_whole(job);
  }
  for (auto index = done.rbegin(); index != done.rend(); ++index) {  // the last one fills the gap
    const auto at = static_cast<size_t>(*index);
    requests_[at] = requests_.back();
    jobs_[at] = std::move(jobs_.back());
    requests_.pop_back();
    jobs_.pop_back();
  }
  return true;
}

bool MpiPost::answer_questions() {
  bool any = false;
  while (auto question = mailbox_.next_question()) {
    auto job = std::make_shared<Job>();
    job->peer = question->from;
    job->owned = (*question->answer)(question->from, std::move(question->text));
    post(WireKind::kAnswer, question->tag, bytes_of(job->owned), job);
    question.reset();  // before answered(): then close() may return, and what `answer` uses may go
    mailbox_.answered();
    any = true;
  }
  return any;
}

void MpiPost::look_for_failures() {
  if (gave_up_) return;
  const auto& lifeline = options_.lifeline;
  if (!lost_at_ && lifeline) {
    if (const auto lost = lifeline->lost()) {
      lost_at_ = monotonic_now();
      mailbox_.fail(loss_error(*lost), Mailbox::Spare::kSendsToOthers, lost->rank);
    }
  }
  if (!lost_at_ && mpi_error_ != MPI_SUCCESS) {
    const auto until = monotonic_now() + kNewsTime;
    while (lifeline && !lifeline->lost() && monotonic_now() < until) {
      std::this_thread::sleep_for(1ms);
    }
    if (lifeline && lifeline->lost()) return look_for_failures();
    lost_at_ = monotonic_now();
    mailbox_.fail(named(fail(Errc::kIo, "MPI failed: {}", mpi_text(mpi_error_)), options_.rank,
                        options_.size));
  }
  if (lost_at_ && monotonic_now() - *lost_at_ > kGraceTime) {
    gave_up_ = true;
    mailbox_.fail(fail(Errc::kCancelled, "a rank was lost"));  // only the first failure is reported
  }
}

// ---- the end ----

void MpiPost::tell_failure(const Error& error) {
  if (closed_ || stops_) return;
  std::string text(1, static_cast<char>(error.code()));
  text += error.message().substr(0, kFailureBytesMax);
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (static_cast<Rank>(rank) == options_.rank) continue;
    auto job = std::make_shared<Job>();
    job->peer = static_cast<Rank>(rank);
    job->owned = text;
    post(WireKind::kFailure, MessageTag{0}, bytes_of(job->owned), job);
  }
  mailbox_.fail(named(error, options_.rank, options_.size));
}

void MpiPost::close() {
  if (closed_.exchange(true)) return;
  mailbox_.close();
  mailbox_.wait_for_sends(kFlushTime);
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (static_cast<Rank>(rank) == options_.rank) continue;
    auto job = std::make_shared<Job>();
    job->peer = static_cast<Rank>(rank);
    post(WireKind::kEnd, MessageTag{0}, {}, job);
  }
}

void MpiPost::stop() {
  const MutexLock lock(stopping_);
  {
    const MutexLock posting(posting_);
    stops_ = true;
  }
  own_bell_.ring();
  if (thread_.joinable()) thread_.join();
  mailbox_.close();
  mailbox_.fail(fail(Errc::kCancelled, "rank {} has closed its messages", index_of(options_.rank)));
  adopt_sends();
  for (JobPointer& job : jobs_) keep_forever(std::move(job));
  requests_.clear();
  jobs_.clear();
  open_receives_ = 0;
}

namespace {

class MpiMessages : public Messages {
 public:
  explicit MpiMessages(std::shared_ptr<MpiPost> post) : post_(std::move(post)) {}
  ~MpiMessages() override { post_->close(); }

  Rank rank() const override { return post_->options().rank; }
  uint32_t size() const override { return post_->options().size; }

  Ticket send(Rank to, MessageTag tag, ByteView bytes) override {
    return post_->send(to, tag, bytes);
  }
  Ticket receive(Rank from, MessageTag tag) override { return post_->receive(from, tag); }
  bool is_done(Ticket ticket) override { return post_->mailbox().is_done(ticket); }
  Status wait(Ticket ticket, nanoseconds patience) override {
    return post_->wait(ticket, patience);
  }
  Result<std::string> take(Ticket ticket) override { return post_->take(ticket); }
  void give_back(std::string bytes) override { post_->give_back(std::move(bytes)); }
  void serve(MessageTag tag, Answer answer) override { post_->serve(tag, std::move(answer)); }
  Ticket ask(Rank whom, MessageTag tag, std::string question) override {
    return post_->ask(whom, tag, std::move(question));
  }
  bool has_ended(Rank rank) override { return post_->mailbox().has_ended(rank); }

 private:
  std::shared_ptr<MpiPost> post_;  // shared with the Comm, which stops it
};

}  // namespace

std::unique_ptr<Messages> mpi_messages(std::shared_ptr<MpiPost> post) {
  return std::make_unique<MpiMessages>(std::move(post));
}

}  // namespace millrace::comm
