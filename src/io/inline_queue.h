// InlineQueue: a ReadQueue without a queue: each read is made by submit(), and wait() tells of it.
#pragma once

#include <utility>
#include <vector>

#include "io/engine.h"

namespace millrace::io {

class InlineQueue : public ReadQueue {
 public:
  explicit InlineQueue(size_t capacity) : capacity_(capacity) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override { return done_.size(); }

  Status submit(const ReadRequest& request) override {
    done_.push_back({request.tag, request.reader->read_at(request.offset_bytes, request.out)});
    return {};
  }

  Status wait(std::vector<ReadDone>& done) override {
    for (ReadDone& one : done_) done.push_back(std::move(one));
    done_.clear();
    return {};
  }

 private:
  size_t capacity_;
  std::vector<ReadDone> done_;
};

}  // namespace millrace::io
