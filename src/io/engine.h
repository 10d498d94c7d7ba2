// Engine: how bytes move between memory and files: posix, direct, mapped, io_uring or memory, and
// auto, which leaves the choice between the first and io_uring to who reads and can measure.
//
// One interface, so that the loader is measured with each and tests can inject faults. Every
// implementation guarantees, and engine_contract.cc checks:
//  - read_at returns all that was asked for, or less only where the file ends; interrupted and
//    short transfers are continued inside; any offset, length and address may be asked for;
//  - many threads may read one Reader at once;
//  - errors name what was attempted; the functions that take a path put it before the message.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace::io {

class Reader {
 public:
  virtual ~Reader() = default;

  // The length now; a file may grow or shrink while it is open.
  virtual Result<uint64_t> size_bytes() const = 0;

  // Reads until `out` is full or the file ends; returns the bytes read.
  virtual Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const = 0;

  // The bytes where they lie, without a copy, for as long as the Reader lives: nothing where the
  // engine has no such place, or the file ends before.
  virtual std::optional<ByteView> view(uint64_t offset_bytes, uint64_t size_bytes) const {
    static_cast<void>(offset_bytes), static_cast<void>(size_bytes);
    return std::nullopt;
  }
};

class Writer {
 public:
  virtual ~Writer() = default;  // what was not closed may be lost

  virtual Status write_at(uint64_t offset_bytes, ByteView bytes) = 0;
  // On return what was written is on the device.
  virtual Status sync() = 0;
  // Reports what the file system only tells at close.
  virtual Status close() = 0;
};

// One read among many that are under way at once.
struct ReadRequest {
  const Reader* reader = nullptr;
  uint64_t offset_bytes = 0;
  MutableByteView out;
  uint64_t tag = 0;  // the caller's, handed back with the result
};

// The whole of a small file among them, as Engine::read_whole reads it.
struct WholeFileRequest {
  std::string path;
  MutableByteView out;
  uint64_t tag = 0;
};

struct ReadDone {
  uint64_t tag = 0;
  Result<size_t> bytes_read;
};

// Reads in flight, for one thread. Engines without a queue of the kernel read inside submit().
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;  // waits for what is in flight: its memory is the caller's

  virtual size_t capacity() const = 0;
  virtual size_t in_flight() const = 0;

  // REQUIRES: in_flight() < capacity(); readers of the engine that made the queue.
  virtual Status submit(const ReadRequest& request) = 0;

  // What is wrong with the file comes with the result, as of read_whole: with the path before it.
  // REQUIRES: in_flight() < capacity()
  virtual Status submit_whole(WholeFileRequest request) = 0;

  // A hint that many reads will go into this memory, which lives longer than the queue: a queue of
  // the kernel then pins it once, and not for each read.
  virtual void use_memory(MutableByteView memory) { static_cast<void>(memory); }

  // Waits until at least one read is done, and adds all that are to `done`. Nothing in flight: adds
  // nothing.
  virtual Status wait(std::vector<ReadDone>& done) = 0;
};

// The two ways in which an engine reads, by the names that people know them by.
struct EngineWays {
  std::string_view one_at_a_time;  // Reader::read_at and read_whole
  std::string_view in_flight;      // ReadQueue; empty: its reads are made one at a time too
  bool is_open_choice = false;     // which is better depends, and is to be measured
  std::string refusal;  // why there are none in flight, of an engine that is to have some
};

class Engine {
 public:
  virtual ~Engine() = default;

  // "auto", "posix", "direct", "mapped", "uring", "memory"
  virtual std::string_view name() const = 0;
  virtual EngineWays ways() const { return {.one_at_a_time = name()}; }

  virtual Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) = 0;
  // Makes the file or empties it.
  virtual Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) = 0;

  // REQUIRES: capacity > 0
  virtual Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) = 0;

  // Reads the whole of a small file in as few calls as there can be (open, read, close): a sample
  // that is a file. Returns its length; more than `out` holds: kExhausted, and the message says how
  // long the file is.
  virtual Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) = 0;
};

// By name, as users say it; an unknown one is an error that lists those there are, and one that the
// build or the kernel lacks says so.
Result<std::unique_ptr<Engine>> open_engine(std::string_view name);

}  // namespace millrace::io
