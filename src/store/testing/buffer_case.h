// BufferCase: a buffer and its upper directory in a temporary directory, used as programs and the
// drainer use it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "store/buffer/drain.h"
#include "store/preload/buffer.h"

namespace millrace::store {

class BufferCase : public testing::Test {
 protected:
  BufferCase()
      : upper(top.path() / "upper"),
        directory(top.path() / "local" / "buffer-7"),
        upper_text(upper.string()),
        directory_text(directory.string()) {
    std::filesystem::create_directories(upper);
    std::filesystem::create_directories(directory.parent_path());
    EXPECT_TRUE(
        BufferJournal::create(directory, {.upper = upper_text, .root = "/data", .job = "7"}).ok());
  }

  Buffer buffer() const {
    return {.directory = directory_text,
            .upper = upper_text,
            .globs = std::string_view("*\0", 2),
            .patience_ms = 2000};
  }

  // A file that a program still writes.
  struct Writer {
    int fd = -1;
    uint64_t id = 0;
  };
  Writer open_writer(const std::string& path, const std::string& content,
                     int flags = O_WRONLY | O_CREAT | O_TRUNC, unsigned mode = 0644) {
    Writer writer;
    writer.fd = open_buffered(buffer(), path, flags, mode, &writer.id);
    EXPECT_GE(writer.fd, 0) << path << ": " << -writer.fd;
    EXPECT_EQ(::write(writer.fd, content.data(), content.size()), ssize_t(content.size()));
    return writer;
  }
  void close_writer(Writer writer) {
    ::close(writer.fd);
    EXPECT_EQ(note_closed(buffer(), writer.id), 0);
  }
  void write(const std::string& path, const std::string& content) {
    close_writer(open_writer(path, content));
  }
  void rename(const std::string& from, const std::string& to) {
    EXPECT_EQ(rename_buffered(buffer(), from, to, 0), 0) << from << " to " << to;
  }
  // unlink() as a hook does it.
  void remove(const std::string& path) {
    const int result = remove_buffered(buffer(), path);
    if (result == kNotBuffered) {
      EXPECT_EQ(::unlink((upper / path).c_str()), 0) << path;
    } else {
      EXPECT_EQ(result, 0) << path;
    }
  }

  // What a program of the node reads there: buffer, then upper directory; "-" if there is nothing.
  std::string read(const std::string& path) const {
    for (;;) {
      uint64_t id = 0;
      const Buffered kind = look(buffer(), path, &id);
      if (kind == Buffered::kRemoved) return "-";
      const auto text =
          read_file(kind == Buffered::kFile ? data_path(directory, id) : upper / path);
      if (text.ok()) return *text;
      if (kind == Buffered::kNotThere) return "-";
    }
  }
  // What another node reads there.
  std::string read_upper(const std::string& path) const {
    const auto text = read_file(upper / path);
    return text.ok() ? *text : "-";
  }
  std::map<std::string, std::string> upper_files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(upper)) {
      if (!entry.is_regular_file()) continue;
      const std::string path = entry.path().lexically_relative(upper).string();
      files[path] = read_upper(path);
    }
    return files;
  }

  std::unique_ptr<BufferDrain> drain(std::chrono::milliseconds scan_every = std::chrono::hours(1)) {
    auto started =
        BufferDrain::start({.directory = directory,
                            .log = [this](const std::string& line) { log += line + "\n"; },
                            .scan_every = scan_every,
                            .retry_after_max = std::chrono::milliseconds(20)});
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message());
    return started.ok() ? *std::move(started) : nullptr;
  }

  std::vector<KeptFile> flush() const {
    auto kept = flush_buffer(directory, std::chrono::milliseconds(500));
    EXPECT_TRUE(kept.ok()) << (kept.ok() ? "" : kept.error().message());
    return kept.ok() ? *std::move(kept) : std::vector<KeptFile>();
  }

  static std::string reasons(const std::vector<KeptFile>& kept) {
    std::string text;
    for (const KeptFile& file : kept) text += file.path + ": " + file.reason + "\n";
    return text;
  }

  TemporaryDirectory top = *TemporaryDirectory::create();
  std::filesystem::path upper;
  std::filesystem::path directory;
  std::string upper_text;
  std::string directory_text;
  std::string log;  // read it after finish()
};

}  // namespace millrace::store
