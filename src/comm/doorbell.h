// Doorbell: wakes a thread of another process on this host. Needs no system call if it is awake.
//
//   owner:  seen = bell.count(); ... nothing to do ... bell.wait(seen, 1ms)
//   others: bell = Doorbell::find(address); ... something to do ... bell->ring()
//
// A ring between count() and wait() is not missed. It is a page of unnamed shared memory, so
// nothing remains when its processes are killed. A child of fork() keeps it mapped, but does not
// have the descriptor. docs/formats/doorbell.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/own_file.h"
#include "wire/doorbell.h"

namespace millrace::comm {

class Doorbell {
 public:
  static Result<Doorbell> make();

  // None if its owner is on another host or hidden from us by a container.
  static std::optional<Doorbell> find(std::string_view address);

  Doorbell(Doorbell&& other) noexcept;
  Doorbell& operator=(Doorbell&& other) noexcept;
  ~Doorbell();

  std::string address() const;

  void ring() const;

  // ---- the owner ----
  uint32_t count() const;
  void wait(uint32_t seen, std::chrono::nanoseconds patience) const;

 private:
  Doorbell(OwnFile memory, wire::DoorbellPage* page) : memory_(std::move(memory)), page_(page) {}

  OwnFile memory_;  // open only in the owner; others need just the mapping
  wire::DoorbellPage* page_ = nullptr;
};

}  // namespace millrace::comm
