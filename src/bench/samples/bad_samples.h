// BadSamples: counts the samples that reader.on_error=skip leaves out. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/result.h"

namespace millrace::bench {

class BadSamples {
 public:
  void add(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (count_++ == 0) first_ = error.message();
  }
  uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  // The error of the first one; empty if there is none.
  std::string first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  uint64_t count_ = 0;
  std::string first_;
};

}  // namespace millrace::bench
