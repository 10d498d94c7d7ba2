// FileReader, FileWriter, FileEngine: files of the operating system, as used by most engines.
#pragma once

#include <filesystem>

#include "base/io/file.h"
#include "io/engine.h"

namespace millrace::io {

class FileReader : public Reader {
 public:
  explicit FileReader(File file) : file_(std::move(file)) {}

  Result<uint64_t> size_bytes() const override { return file_.size_bytes(); }
  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    return file_.read_at(offset_bytes, out);
  }

  int fd() const { return file_.fd(); }
  // Whether transfers must be aligned and bypass the page cache.
  virtual bool is_direct() const { return false; }

 private:
  File file_;
};

class FileWriter final : public Writer {
 public:
  explicit FileWriter(File file) : file_(std::move(file)) {}

  Status write_at(uint64_t offset_bytes, ByteView bytes) override {
    return file_.write_at(offset_bytes, bytes);
  }
  Status sync() override { return file_.sync(); }
  Status close() override { return file_.close(); }

 private:
  File file_;
};

// Opens for reading. Refuses a directory here rather than at the first read, although open(2) would
// open it.
Result<File> open_to_read(const std::filesystem::path& path, int more_flags = 0);

Result<std::unique_ptr<Writer>> create_file(const std::filesystem::path& path);

// Implements Engine::read_whole with open, one read and close. file_reader.cc says how it detects
// the end.
Result<size_t> read_whole_file(const std::filesystem::path& path, MutableByteView out);

// Accesses files with plain calls through the page cache. Base of engines that differ in their
// queue or views.
class FileEngine : public Engine {
 public:
  Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) override;
  Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) override {
    return create_file(path);
  }
  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override {
    return read_whole_file(path, out);
  }
};

// The error of read_whole for a file that does not fit.
Error longer_than_room(uint64_t size_bytes, size_t room_bytes);

}  // namespace millrace::io
