// FileSource: samples in files, read through an io::Engine.
//
// open_files() takes files of a format, each with one or many samples. open_folder() takes a
// directory in which every file is a sample and the directory of a file is its class, as in
// torchvision's ImageFolder.
//
// The samples are listed once, at the start. If a file is later shorter, gone or replaced, reading
// it fails with an error that names the sample. The number of open files is bounded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/source.h"
#include "format/format.h"
#include "format/reader_table.h"
#include "io/engine.h"

namespace millrace::format {

// The first guess at a file's length for an empty buffer. Most samples fit.
constexpr size_t kFirstRoomBytes = 256 * 1024;

struct FilesOptions {
  std::string format;  // if empty, by the extension of the first file
  FormatOptions format_options;
  std::vector<std::filesystem::path> paths;  // in this order; or
  std::filesystem::path directory;           // the files below it with an extension of the format
  std::shared_ptr<io::Engine> engine;        // shared with the caller; null for auto
  size_t thread_count = 0;                   // for indexing; 0 for as many as there are CPUs
  size_t open_files_max = 0;                 // 0 for half of what the process may open
};

struct FolderOptions {
  std::filesystem::path directory;
  std::vector<std::string> extensions;  // ".jpg", in any case; if there are none, all files
  std::string format;       // splits a file into fields: "npy", "npz"; empty for plain bytes
  bool has_classes = true;  // the directories in `directory` are classes, labelled in sorted order
  std::shared_ptr<io::Engine> engine;  // shared with the caller; null for auto
  size_t thread_count = 0;             // for listing; 0 for as many as there are CPUs
};

class FileSource final : public data::SampleSource {
 public:
  ~FileSource() override;

  uint64_t sample_count() const override { return dataset_.sample_count(); }
  std::string name(data::SampleId sample) const override { return dataset_.name(sample); }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return dataset_.label(sample);
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  data::ReadWays ways() const override;
  Result<std::unique_ptr<data::SampleReads>> open_reads(size_t capacity) const override;
  bool wants_order() const override { return engine_->wants_order(); }
  void expect(const data::ComingOrder& order) const override;
  void finished(std::span<const data::SampleId> read) const override;
  uint64_t group_count() const override { return dataset_.file_count(); }
  data::SampleId group_begin(uint64_t group) const override { return dataset_.file_begin(group); }
  std::string group_path(uint64_t group) const override {
    return dataset_.path(data::FileIndex{static_cast<uint32_t>(group)});
  }

  const data::Dataset& dataset() const { return dataset_; }

  // Splits a sample into fields; null for a folder of plain bytes. Shared with decoders.
  const std::shared_ptr<const Format>& format() const { return format_; }

  // Type and shape of every sample, if the files declare it (rows of npy). Then the bytes of a
  // sample are its elements.
  const std::optional<data::FieldSpec>& element() const { return element_; }

 private:
  friend class FileReads;
  friend Result<std::shared_ptr<FileSource>> open_files(FilesOptions options);
  friend Result<std::shared_ptr<FileSource>> open_folder(FolderOptions options);
  friend std::shared_ptr<FileSource> open_listed(data::Dataset dataset,
                                                 std::shared_ptr<io::Engine> engine,
                                                 std::shared_ptr<const Format> format);

  FileSource(data::Dataset dataset, std::shared_ptr<io::Engine> engine,
             std::shared_ptr<const Format> format, size_t open_files_max);

  Result<std::unique_ptr<io::Reader>> open(data::FileIndex file) const;
  Result<ByteView> read_file(data::FileIndex file, data::Buffer& room) const;
  Result<size_t> read_part(const data::Extent& extent, MutableByteView out) const;
  Result<ByteView> view_or_read(const data::Extent& extent, data::Buffer& room) const;
  Error named(data::SampleId sample, Error error) const;
  Error too_long(data::SampleId sample, size_t room_bytes) const;
  static Error ends_early(const data::Extent& extent, size_t read_bytes);
  static Error changed_if_gone(Error error);
  Status check(data::SampleId sample, ByteView bytes) const;

  data::Dataset dataset_;
  std::shared_ptr<io::Engine> engine_;    // shared with the caller
  std::shared_ptr<const Format> format_;  // shared with decoders
  std::optional<data::FieldSpec> element_;
  ReaderTable readers_;
};

Result<std::shared_ptr<FileSource>> open_files(FilesOptions options);
Result<std::shared_ptr<FileSource>> open_folder(FolderOptions options);

// Files of a format that the caller has opened; it has no source of its own.
Result<std::shared_ptr<FileSource>> open_indexed(const std::vector<std::string>& paths,
                                                 std::shared_ptr<io::Engine> engine,
                                                 std::shared_ptr<const Format> format);

// A dataset whose samples the caller knows, so that no file is opened before it is read. `format`
// may be null.
std::shared_ptr<FileSource> open_listed(data::Dataset dataset, std::shared_ptr<io::Engine> engine,
                                        std::shared_ptr<const Format> format);

// Samples of files of any format, also of those that have a source of their own (HDF5, Parquet).
struct Samples {
  std::shared_ptr<data::SampleSource> source;
  std::shared_ptr<const Format> format;    // splits a sample into fields
  std::optional<data::FieldSpec> element;  // as FileSource::element()
};
Result<Samples> open_samples(FilesOptions options);

// The fields of a sample; `element` gives its type if the format does not.
Status split_sample(const Samples& samples, ByteView sample, SampleFields& fields);

// The format of the files, and their paths in the order of their samples.
struct FileList {
  std::string format;
  std::vector<std::string> paths;
};
Result<FileList> list_files(const FilesOptions& options);

}  // namespace millrace::format
