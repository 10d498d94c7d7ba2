// Engine: a way to move bytes between memory and files: posix, direct, mapped or io_uring.
// The engine `auto` has both posix and io_uring and leaves the choice to the caller, who can
// measure.
//
// There is one interface, so that the loader can be measured with each engine and tests can inject
// faults. Every implementation guarantees, and engine_contract.cc checks:
//  - read_at returns all requested bytes, or fewer only at the end of the file; it continues
//    interrupted and short transfers; any offset, length and address is allowed;
//  - many threads may use one Reader at once;
//  - errors name what was attempted; functions that take a path prefix the message with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "io/listing.h"

namespace millrace::io {

class Reader {
 public:
  virtual ~Reader() = default;

  // The current length. A file may grow or shrink while it is open.
  virtual Result<uint64_t> size_bytes() const = 0;

  // Reads until `out` is full or the file ends. Returns the number of bytes read.
  virtual Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const = 0;

  // Returns the bytes without a copy, valid as long as the Reader lives. Returns nullopt if the
  // engine has no views or the file ends earlier.
  virtual std::optional<ByteView> view(uint64_t offset_bytes, uint64_t size_bytes) const {
    static_cast<void>(offset_bytes), static_cast<void>(size_bytes);
    return std::nullopt;
  }
};

class Writer {
 public:
  virtual ~Writer() = default;  // without close(), data may be lost

  virtual Status write_at(uint64_t offset_bytes, ByteView bytes) = 0;
  // On return, all writes are on the device.
  virtual Status sync() = 0;
  // Returns errors that the file system reports only at close.
  virtual Status close() = 0;
};

// One of many reads in flight.
struct ReadRequest {
  const Reader* reader = nullptr;
  uint64_t offset_bytes = 0;
  MutableByteView out;
  uint64_t tag = 0;  // chosen by the caller, returned with the result
};

// Reads a whole small file, like Engine::read_whole.
struct WholeFileRequest {
  std::string path;
  MutableByteView out;
  uint64_t tag = 0;
};

struct ReadDone {
  uint64_t tag = 0;
  Result<size_t> bytes_read;
};

// Reads in flight. Single-threaded. Engines without a kernel queue read inside submit().
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;  // waits for reads in flight, which write to the caller's memory

  virtual size_t capacity() const = 0;
  virtual size_t in_flight() const = 0;

  // REQUIRES: in_flight() < capacity(), and a reader of the engine that opened the queue.
  virtual Status submit(const ReadRequest& request) = 0;

  // Errors of the file come with the result and start with the path, like those of read_whole.
  // REQUIRES: in_flight() < capacity()
  virtual Status submit_whole(WholeFileRequest request) = 0;

  // A hint that many reads will go into this memory, which must outlive the queue. A kernel queue
  // then pins it once instead of for each read.
  virtual void use_memory(MutableByteView memory) { static_cast<void>(memory); }

  // Waits until at least one read is done, and appends all completed ones to `done`. If nothing is
  // in flight, appends nothing.
  virtual Status wait(std::vector<ReadDone>& done) = 0;
};

// The two ways in which an engine reads, by the engine names that users know.
struct EngineWays {
  std::string_view one_at_a_time;  // Reader::read_at and read_whole
  std::string_view in_flight;      // ReadQueue; empty: it also reads one at a time
  bool is_open_choice = false;     // the faster one must be measured
  std::string refusal;             // why an engine that should have reads in flight has none
};

class Engine {
 public:
  virtual ~Engine() = default;

  // "auto", "posix", "direct", "mapped", "uring"; "memory" in tests
  virtual std::string_view name() const = 0;
  virtual EngineWays ways() const { return {.one_at_a_time = name()}; }

  virtual Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) = 0;
  // Creates or truncates the file.
  virtual Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) = 0;

  // REQUIRES: capacity > 0
  virtual Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) = 0;

  // Reads a small file, such as a sample, in as few calls as possible (open, read, close). Returns
  // its length. If `out` is too small, fails with kExhausted and a message that says how long the
  // file is.
  virtual Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) = 0;

  // The bytes of a small file without a copy, valid as long as the engine. Nullopt if the engine
  // has no such views, or not of this file: then read_whole() reads it, or says why not.
  virtual std::optional<ByteView> view_whole(std::string_view path) {
    static_cast<void>(path);
    return std::nullopt;
  }

  // The files that will be read, one path for each read, from now on; nullopt: no more are known.
  // For engines that fetch ahead, on a thread of theirs. Replaces what was expected before; an
  // empty function ends it, and is not called any more on return.
  using ComingFiles = std::function<std::optional<std::string>()>;
  virtual bool wants_order() const { return false; }
  virtual void expect(ComingFiles files) { static_cast<void>(files); }
  // `count` more of them have been read.
  virtual void finished(uint64_t count) { static_cast<void>(count); }

  // How to find the files that open() and read_whole() read.
  virtual const Listing& listing() const { return system_listing(); }
};

// Opens an engine by its name. The error for an unknown name lists all engines; the error for an
// engine that the build or the kernel lacks says why.
Result<std::unique_ptr<Engine>> open_engine(std::string_view name);

}  // namespace millrace::io
