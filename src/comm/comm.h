// comm: how the ranks of one job communicate: in a single process, between threads, or over MPI.
//
// Guarantees, which comm_contract.h checks for every implementation:
//  - a collective call returns on all ranks, with success on all or with the same error on all;
//  - nothing waits forever: if a rank fails (agree), ends or is killed, the calls of the others
//    fail with an error that names it;
//  - the first failure is final: after it, every call returns that error at once;
//  - messages may have any length, including over 2 GiB.
// The module never prints and never ends the program. docs/design/ranks.md explains how it works
// and who prints. Only one thread at a time may use a Comm.
//
// MPI is an optional part, in a separate library that is loaded on demand (mpi.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace::comm {

enum class Rank : uint32_t {};  // 0-based, below Comm::size()

inline constexpr Rank kFirstRank{0};

constexpr uint32_t index_of(Rank rank) { return static_cast<uint32_t>(rank); }

enum class Fold : uint8_t { kSum, kMin, kMax };

// What is reduced, element by element and in place. A sum of integers wraps around. Floating-point
// numbers may be added in any order, but all ranks get the same bits. The minimum and maximum are
// unspecified if a NaN is among the numbers.
using Values = std::variant<std::span<uint64_t>, std::span<double>>;

class Messages;  // messages.h

class Comm {
 public:
  virtual ~Comm() = default;  // if other ranks are waiting, their call fails

  virtual Rank rank() const = 0;
  virtual uint32_t size() const = 0;

  // ---- collective calls: every rank makes the same ones, in the same order ----

  // Returns when all ranks have called it.
  virtual Status barrier() = 0;

  // Replaces `bytes` on all other ranks by that of `root`.
  virtual Status broadcast(std::string& bytes, Rank root) = 0;

  // Sets the values of `root` to the fold over all ranks; those of the others do not change.
  // REQUIRES: all ranks pass the same number of values, of the same type.
  virtual Status reduce(Values values, Fold fold, Rank root) = 0;

  // Sets the values of all ranks to the fold over all ranks.
  virtual Status reduce_to_all(Values values, Fold fold) = 0;

  // On `root`, the bytes of every rank, by rank; empty on the others.
  virtual Result<std::vector<std::string>> gather(ByteView mine, Rank root) = 0;

  // The bytes of every rank, on all ranks: a gather and a broadcast.
  Result<std::vector<std::string>> gather_to_all(ByteView mine);

  // Success if every rank passes success. Otherwise, on all ranks, the error of the lowest rank
  // that passes one, prefixed with that rank ("rank 2: ...") unless the job has only one.
  //
  // A rank that has failed calls this at once, whatever call the others are waiting in: their call
  // fails with its error. After a failed call, agree() returns the error of that call and ignores
  // its argument, so `status = comm.agree(work(comm))` ends the work of a rank in all cases.
  virtual Status agree(const Status& mine) = 0;

  // Moves bytes from one rank to another while the ranks work. Include messages.h to use it.
  virtual Result<std::unique_ptr<Messages>> open_messages() = 0;

  // ---- not collective ----

  // Whether this is the rank that prints: the lowest one that is not known to be lost. Print an
  // error before destroying the Comm; until then the launcher cannot have ended this rank.
  virtual bool speaks() const = 0;
};

}  // namespace millrace::comm
