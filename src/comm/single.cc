#include "comm/single.h"

#include <optional>

#include "comm/proposal.h"
#include "comm/thread_messages.h"

namespace millrace::comm {
namespace {

class SingleComm : public Comm {
 public:
  ~SingleComm() override {
    for (const auto& post : posts_) post->end(kFirstRank);
  }

  Rank rank() const override { return kFirstRank; }
  uint32_t size() const override { return 1; }
  bool speaks() const override { return true; }

  Status barrier() override { return meet(kFirstRank); }
  Status broadcast(std::string&, Rank root) override { return meet(root); }
  Status reduce(Values, Fold, Rank root) override { return meet(root); }
  Status reduce_to_all(Values, Fold) override { return meet(kFirstRank); }

  Result<std::vector<std::string>> gather(ByteView mine, Rank root) override {
    RETURN_IF_ERROR(meet(root));
    return std::vector<std::string>{std::string(text_of(mine))};
  }

  Status agree(const Status& mine) override {
    if (!failure_ && !mine.ok()) failure_ = mine.error();
    for (const auto& post : posts_) {
      if (failure_) post->fail(kFirstRank, *failure_);
    }
    return meet(kFirstRank);
  }

  Result<std::unique_ptr<Messages>> open_messages() override {
    RETURN_IF_ERROR(meet(kFirstRank));
    posts_.push_back(std::make_shared<ThreadPost>(1));
    return thread_messages(posts_.back(), kFirstRank);
  }

 private:
  Status meet(Rank root) {
    if (!failure_) {
      if (const Status checked = check_root(root, 1); !checked.ok()) failure_ = checked.error();
    }
    return failure_ ? Status(*failure_) : Status();
  }

  std::optional<Error> failure_;
  std::vector<std::shared_ptr<ThreadPost>>
      posts_;  // shared with the Messages, which may live longer
};

}  // namespace

std::unique_ptr<Comm> single() { return std::make_unique<SingleComm>(); }

}  // namespace millrace::comm
