// comm: how the ranks of one job talk: one interface, by one process, by threads, or by MPI.
//
// Promises, which comm_contract.h checks of every implementation:
//  - a collective call returns on all ranks, with success on all or with the same error on all;
//  - nothing waits for ever: a rank that fails (agree), ends or is killed makes the call of every
//    other one fail, with an error that names it;
//  - the first failure is the last: after it, every call returns that error at once;
//  - messages have any length, also over 2 GiB.
// The module never prints and never ends the program; docs/design/ranks.md says how it is done, and
// who prints. A Comm is used by one thread at a time.
//
// MPI is an optional part, in a library of its own that is loaded on demand (mpi.h).
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

// What is reduced: element by element, in place. A sum of whole numbers wraps around. Sums of
// floating-point numbers may be added in any order, but all ranks get the same bits; the least and
// the greatest of numbers with a NaN among them is unspecified.
using Values = std::variant<std::span<uint64_t>, std::span<double>>;

class Messages;  // messages.h

class Comm {
 public:
  virtual ~Comm() = default;  // the last call; a rank that ends while others wait makes them fail

  virtual Rank rank() const = 0;
  virtual uint32_t size() const = 0;

  // ---- collective calls: every rank makes the same ones, in the same order ----

  // Returns when all ranks have called it.
  virtual Status barrier() = 0;

  // `bytes` of `root` replaces that of all others.
  virtual Status broadcast(std::string& bytes, Rank root) = 0;

  // The values of `root` become the fold of everybody's; the others' stay as they were. All ranks
  // bring equally many of one type.
  virtual Status reduce(Values values, Fold fold, Rank root) = 0;

  // The values of all ranks become the fold of everybody's.
  virtual Status reduce_to_all(Values values, Fold fold) = 0;

  // On `root`, what every rank brought, by rank; empty elsewhere.
  virtual Result<std::vector<std::string>> gather(ByteView mine, Rank root) = 0;

  // The same on all ranks: a gather and a broadcast.
  Result<std::vector<std::string>> gather_to_all(ByteView mine);

  // Success if every rank brings success; else, on all ranks, the error of the lowest rank that
  // brings one, after its name ("rank 2: ..."; one rank alone needs no name).
  //
  // A rank that has failed calls this at once, whatever the others are waiting in: their call fails
  // with its error. After a failed call it returns that call's error, whatever it is given, so that
  // `status = comm.agree(work(comm))` ends the work of a rank in all cases.
  virtual Status agree(const Status& mine) = 0;

  // What moves bytes from one rank to another while the ranks work. Include messages.h to use it.
  virtual Result<std::unique_ptr<Messages>> open_messages() = 0;

  // ---- not collective ----

  // Whether this is the rank that prints: the lowest one that is not known to be lost. An error is
  // printed before the Comm goes: then the launcher cannot have ended this rank yet.
  virtual bool speaks() const = 0;
};

}  // namespace millrace::comm
