// format: how samples lie in files: raw, npy, npz, TFRecord, tar (WebDataset), indexed.
//
// A Format finds the samples of a file (where each lies, never what is in it), splits the bytes of
// a sample into named arrays, and writes files that it and other people's readers can read. One
// file a format, one line in a table (format.cc). Stateless and safe for many threads.
//
// Everything read is somebody else's bytes: lengths, checksums and counts are checked before they
// are believed, and an error says the place and the fact; the caller puts the path before it.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "data/buffer.h"
#include "data/dataset.h"
#include "io/engine.h"

namespace millrace::format {

// A named array of a sample: "jpg" of a tar's sample, a feature of an Example, "data" where a
// sample is one array. Bytes without a type are uint8 with one axis.
struct Field {
  std::string_view name;
  data::ArrayView array;
};

Field bytes_field(std::string_view name, ByteView bytes);

// The fields of one sample: views into its bytes, and into memory of its own where they do not lie
// there as such (inflated, or spelled otherwise). Used again for the next sample.
class SampleFields {
 public:
  void clear();
  void add(Field field) { list_.push_back(field); }
  std::span<const Field> list() const { return list_; }

  // The first of the names that is there: "jpg;jpeg;png". Null where none is.
  const Field* find(std::string_view names) const;
  std::string names() const;  // "'jpg', 'cls'", for errors

  // Memory that stays until clear().
  MutableByteView room(size_t size_bytes);
  std::string_view keep(std::string_view text);

 private:
  std::vector<Field> list_;
  // Deques: what was handed out does not move when they grow.
  std::deque<data::Buffer> rooms_;
  size_t rooms_used_ = 0;
  std::deque<std::string> texts_;
  size_t texts_used_ = 0;
};

// Writes samples one after another. What was not finished is no file.
class SampleWriter {
 public:
  virtual ~SampleWriter() = default;

  // `key` names the sample where the format keeps names.
  virtual Status add(std::string_view key, std::span<const Field> fields) = 0;
  virtual Status finish() = 0;
};

struct FormatOptions {
  uint64_t record_bytes = 0;  // raw: the length of every record; 0: a file is one sample
  bool rows = false;          // npy: the rows of a file are the samples; else the file is one
};

class Format {
 public:
  virtual ~Format() = default;

  virtual std::string_view name() const = 0;

  // True where each file is one sample: index() is then not needed, and no file is opened for it.
  virtual bool is_file_a_sample() const = 0;

  // Where the samples of a file lie.
  virtual Result<data::FileSamples> index(io::Engine& engine,
                                          const std::filesystem::path& path) const = 0;

  // The fields in the bytes of a sample. `fields` is cleared first.
  virtual Status split(ByteView sample, SampleFields& fields) const = 0;

  virtual Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                                       const std::filesystem::path& path) const = 0;
};

// By name; an unknown one is an error that lists those there are.
Result<std::unique_ptr<Format>> open_format(std::string_view name,
                                            const FormatOptions& options = {});

// The format whose files end so ("x/train-00.tar"): its name, or an error that says what is known.
Result<std::string_view> format_of(const std::filesystem::path& path);

// Whether a file's name ends as those of the format do.
bool has_name_of(std::string_view file, std::string_view format_name);

// As the table has them, with the dot: {".tar"}.
std::span<const std::string_view> extensions_of(std::string_view format_name);
std::vector<std::string> format_names();

}  // namespace millrace::format
