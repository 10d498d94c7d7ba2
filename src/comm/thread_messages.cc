#include "comm/thread_messages.h"

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread.h"

namespace millrace::comm {

ThreadPost::ThreadPost(uint32_t size) {
  for (uint32_t rank = 0; rank < size; ++rank) {
    stations_.push_back(std::make_unique<Station>(static_cast<Rank>(rank), size));
  }
}

ThreadPost::~ThreadPost() {
  for (uint32_t rank = 0; rank < size(); ++rank) end(static_cast<Rank>(rank));
}

void ThreadPost::fail(Rank failed, const Error& error) {
  for (const auto& station : stations_) {
    if (station != stations_[index_of(failed)]) station->told = true;
    station->mailbox.fail(error);
  }
}

void ThreadPost::end(Rank rank) {
  Station& station = *stations_[index_of(rank)];
  std::thread answers;
  {
    const MutexLock lock(station.mutex);
    if (station.ended) return;
    station.ended = true;
    answers = std::move(station.answers);
  }
  station.mailbox.close();
  if (answers.joinable()) answers.join();
  for (const auto& other : stations_) {
    if (other.get() != &station) other->mailbox.rank_ended(rank);
  }
}

void ThreadPost::deliver(Rank to, const Channel& channel, std::string bytes) {
  const std::shared_ptr<Arrival> arrival = mailbox(to).begin(channel);
  arrival->bytes = std::move(bytes);
  mailbox(to).complete(arrival);
}

void ThreadPost::serve(Rank rank, MessageTag tag, Messages::Answer answer) {
  Station& station = *stations_[index_of(rank)];
  const MutexLock lock(station.mutex);
  if (station.ended) return;
  station.mailbox.serve(tag, std::move(answer));
  if (!station.answers.joinable()) {
    auto started = start_thread("mr-answers", [this, rank] { answer_questions(rank); });
    if (!started.ok()) return station.mailbox.fail(started.error());
    station.answers = *std::move(started);
  }
}

void ThreadPost::answer_questions(Rank rank) {
  Mailbox& own = mailbox(rank);
  while (auto question = own.wait_for_question()) {
    const Channel channel = {.from = rank, .kind = MessageKind::kAnswer, .tag = question->tag};
    deliver(question->from, channel,
            (*question->answer)(question->from, std::move(question->text)));
    question.reset();  // before answered(): then close() may return, and what `answer` uses may go
    own.answered();
  }
}

namespace {

class ThreadMessages : public Messages {
 public:
  ThreadMessages(std::shared_ptr<ThreadPost> post, Rank rank)
      : post_(std::move(post)), rank_(rank) {}
  ~ThreadMessages() override { post_->end(rank_); }

  Rank rank() const override { return rank_; }
  uint32_t size() const override { return post_->size(); }

  Ticket send(Rank to, MessageTag tag, ByteView bytes) override {
    const Ticket ticket = own().open_send(to, tag);
    if (own().has_failed(ticket)) return ticket;
    post_->deliver(to, own_channel(MessageKind::kMessage, tag), std::string(text_of(bytes)));
    own().finish_send(ticket);
    return ticket;
  }

  Ticket receive(Rank from, MessageTag tag) override {
    return own().open_receive({.from = from, .kind = MessageKind::kMessage, .tag = tag});
  }

  bool is_done(Ticket ticket) override { return own().is_done(ticket); }

  Status wait(Ticket ticket, std::chrono::nanoseconds patience) override {
    return own().wait(ticket, patience);
  }

  Result<std::string> take(Ticket ticket) override { return own().take(ticket); }

  void serve(MessageTag tag, Answer answer) override {
    post_->serve(rank_, tag, std::move(answer));
  }

  Ticket ask(Rank whom, MessageTag tag, std::string question) override {
    const MutexLock lock(asking_);  // answers come in the order of the questions
    const Channel answers = {.from = whom, .kind = MessageKind::kAnswer, .tag = tag};
    const Ticket ticket = own().open_receive(answers);
    if (own().has_failed(ticket)) return ticket;
    post_->deliver(whom, own_channel(MessageKind::kQuestion, tag), std::move(question));
    return ticket;
  }

  bool has_ended(Rank rank) override { return own().has_ended(rank); }

 private:
  Mailbox& own() { return post_->mailbox(rank_); }
  Channel own_channel(MessageKind kind, MessageTag tag) const {
    return {.from = rank_, .kind = kind, .tag = tag};
  }

  std::shared_ptr<ThreadPost> post_;  // shared by the ranks of the job; the last one destroys it
  Rank rank_;
  Mutex asking_;
};

}  // namespace

std::unique_ptr<Messages> thread_messages(std::shared_ptr<ThreadPost> post, Rank rank) {
  return std::make_unique<ThreadMessages>(std::move(post), rank);
}

}  // namespace millrace::comm
