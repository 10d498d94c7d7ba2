// InlineQueue: a ReadQueue that is not asynchronous: submit() reads, and wait() returns the
// results.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "io/engine.h"

namespace millrace::io {

class InlineQueue : public ReadQueue {
 public:
  using ReadWhole =
      std::function<Result<size_t>(const std::filesystem::path& path, MutableByteView out)>;

  InlineQueue(size_t capacity, ReadWhole read_whole)
      : capacity_(capacity), read_whole_(std::move(read_whole)) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override { return done_.size(); }

  Status submit(const ReadRequest& request) override {
    done_.push_back({request.tag, request.reader->read_at(request.offset_bytes, request.out)});
    return {};
  }

  Status submit_whole(WholeFileRequest request) override {
    done_.push_back({request.tag, read_whole_(request.path, request.out)});
    return {};
  }

  Status wait(std::vector<ReadDone>& done) override {
    for (ReadDone& one : done_) done.push_back(std::move(one));
    done_.clear();
    return {};
  }

 private:
  size_t capacity_;
  ReadWhole read_whole_;
  std::vector<ReadDone> done_;
};

}  // namespace millrace::io
