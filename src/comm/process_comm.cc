#include "comm/process_comm.h"

#include <unistd.h>

#include <utility>

#include "comm/messages.h"

namespace millrace::comm {

Error forked_error(pid_t rank_process) {
  return fail(
      Errc::kUnsupported,
      "process {} was forked from process {}, which is a rank, and cannot communicate with the "
      "other ranks; make this call in process {}",
      getpid(), rank_process, rank_process);
}

namespace {

// Usable in the process that made it; a child must not even destroy it.
template <typename T>
class OfProcess {
 public:
  explicit OfProcess(std::unique_ptr<T> made) : made_(std::move(made)) {}
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;
  ~OfProcess() {
    if (is_here()) return;
    static_cast<void>(made_.release());
  }

  bool is_here() const { return getpid() == process_; }
  Status check() const { return is_here() ? Status() : forked_error(process_); }
  T* operator->() const { return made_.get(); }

 private:
  std::unique_ptr<T> made_;
  pid_t process_ = getpid();
};

class ProcessMessages : public Messages {
 public:
  explicit ProcessMessages(std::unique_ptr<Messages> messages) : messages_(std::move(messages)) {}

  Rank rank() const override { return messages_->rank(); }
  uint32_t size() const override { return messages_->size(); }

  // In a child, the wait() or take() for such a ticket says why it failed.
  Ticket send(Rank to, MessageTag tag, ByteView bytes) override {
    return messages_.is_here() ? messages_->send(to, tag, bytes) : Ticket{0};
  }
  Ticket receive(Rank from, MessageTag tag) override {
    return messages_.is_here() ? messages_->receive(from, tag) : Ticket{0};
  }
  Ticket ask(Rank whom, MessageTag tag, std::string question) override {
    return messages_.is_here() ? messages_->ask(whom, tag, std::move(question)) : Ticket{0};
  }
  bool is_done(Ticket ticket) override {
    return !messages_.is_here() || messages_->is_done(ticket);
  }

  Status wait(Ticket ticket, std::chrono::nanoseconds patience) override {
    RETURN_IF_ERROR(messages_.check());
    return messages_->wait(ticket, patience);
  }
  Result<std::string> take(Ticket ticket) override {
    RETURN_IF_ERROR(messages_.check());
    return messages_->take(ticket);
  }
  void give_back(std::string bytes) override {
    if (messages_.is_here()) messages_->give_back(std::move(bytes));
  }
  void serve(MessageTag tag, Answer answer) override {
    if (messages_.is_here()) messages_->serve(tag, std::move(answer));
  }
  bool has_ended(Rank rank) override { return messages_.is_here() && messages_->has_ended(rank); }

 private:
  OfProcess<Messages> messages_;
};

class ProcessComm : public Comm {
 public:
  explicit ProcessComm(std::unique_ptr<Comm> comm) : comm_(std::move(comm)) {}

  Rank rank() const override { return comm_->rank(); }
  uint32_t size() const override { return comm_->size(); }

  // No other process reports what goes wrong in a child.
  bool speaks() const override { return !comm_.is_here() || comm_->speaks(); }

  Status barrier() override {
    RETURN_IF_ERROR(comm_.check());
    return comm_->barrier();
  }
  Status broadcast(std::string& bytes, Rank root) override {
    RETURN_IF_ERROR(comm_.check());
    return comm_->broadcast(bytes, root);
  }
  Status reduce(Values values, Fold fold, Rank root) override {
    RETURN_IF_ERROR(comm_.check());
    return comm_->reduce(values, fold, root);
  }
  Status reduce_to_all(Values values, Fold fold) override {
    RETURN_IF_ERROR(comm_.check());
    return comm_->reduce_to_all(values, fold);
  }
  Result<std::vector<std::string>> gather(ByteView mine, Rank root) override {
    RETURN_IF_ERROR(comm_.check());
    return comm_->gather(mine, root);
  }
  Status agree(const Status& mine) override {
    if (comm_.is_here()) return comm_->agree(mine);
    return mine.ok() ? comm_.check() : mine;
  }
  Result<std::unique_ptr<Messages>> open_messages() override {
    RETURN_IF_ERROR(comm_.check());
    ASSIGN_OR_RETURN(auto messages, comm_->open_messages());
    return std::unique_ptr<Messages>(std::make_unique<ProcessMessages>(std::move(messages)));
  }

 private:
  OfProcess<Comm> comm_;
};

}  // namespace

std::unique_ptr<Comm> of_this_process(std::unique_ptr<Comm> comm) {
  return std::make_unique<ProcessComm>(std::move(comm));
}

}  // namespace millrace::comm
