#include "format/convert.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <set>

#include "base/concurrency/thread_pool.h"
#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "format/arrays/integer_types.h"
#include "format/arrays/npy.h"

namespace millrace::format {
namespace {

namespace fs = std::filesystem;

using data::ElementType;
using data::SampleId;

// The samples [begin, end) of the source go into one file.
struct Piece {
  std::string name;  // relative to the destination
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Numbers of any type that has a C++ type; nullopt for others.
std::optional<std::vector<double>> as_doubles(const data::ArrayView& array) {
  std::vector<double> values(array.shape.element_count());
  const auto fill = [&]<typename T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<double>(value);
    }
    return true;
  };
  bool is_filled = false;
  if (array.type == ElementType::kF32) {
    is_filled = fill(float{});
  } else if (array.type == ElementType::kF64) {
    is_filled = fill(double{});
  } else if (array.type == ElementType::kBool) {
    is_filled = fill(uint8_t{});
  } else {
    is_filled = with_integer_type(array.type, false, fill);
  }
  if (!is_filled) return std::nullopt;
  return values;
}

bool are_plain_bytes(const Field& field) {
  return field.array.type == ElementType::kU8 && field.array.shape.axis_count() == 1;
}

// The fields of a source sample as the destination's writer takes them.
class Fields {
 public:
  explicit Fields(const ConvertOptions& options) : options_(options) {}

  // Valid until the next call.
  Result<std::span<const Field>> of(const Samples& samples, SampleId sample) {
    ASSIGN_OR_RETURN(const ByteView bytes, samples.source->read(sample, room_));
    RETURN_IF_ERROR(split_sample(samples, bytes, split_).within(samples.source->name(sample)));
    list_.clear();
    texts_.clear();
    for (const Field& field : split_.list()) {
      if (is_wanted(field.name)) list_.push_back(field);
    }
    label_ = samples.source->label(sample).value_or(-1);
    const bool has_label = split_.find("label;cls") != nullptr;
    if (label_ >= 0 && !has_label && is_wanted("label")) add_label();
    for (const std::string& name : options_.fields) {
      if (std::ranges::find(list_, name, &Field::name) != list_.end()) continue;
      return fail(Errc::kNotFound, "{}: the sample has no '{}'; it has {}",
                  samples.source->name(sample), printable(name), split_.names());
    }
    if (options_.to == "tar") RETURN_IF_ERROR(make_members());
    return std::span<const Field>(list_);
  }

 private:
  bool is_wanted(std::string_view name) const {
    return options_.fields.empty() ||
           std::ranges::find(options_.fields, name) != options_.fields.end();
  }

  void add_label() {
    list_.push_back({.name = "label",
                     .array = {.type = ElementType::kI64,
                               .shape = {},
                               .bytes = std::as_bytes(std::span(&label_, 1))}});
  }

  // The members of a tar are bytes: numbers become npy files, and the label becomes "cls".
  Status make_members() {
    for (Field& field : list_) {
      if (are_plain_bytes(field)) continue;
      if (field.name == "label" &&
          field.array.bytes.data() == std::as_bytes(std::span(&label_, 1)).data()) {
        field = bytes_field("cls", bytes_of(texts_.emplace_back(std::to_string(label_))));
        continue;
      }
      ASSIGN_OR_RETURN(std::string member, npy_header(field.array.type, field.array.shape));
      member += text_of(field.array.bytes);
      const std::string& name = texts_.emplace_back(fmt::format("{}.npy", field.name));
      field = bytes_field(name, bytes_of(texts_.emplace_back(std::move(member))));
    }
    return {};
  }

  const ConvertOptions& options_;
  data::Buffer room_;
  SampleFields split_;
  std::vector<Field> list_;
  std::deque<std::string> texts_;  // a deque, because its elements do not move
  int64_t label_ = -1;
};

std::string extension_of(const std::string& format) {
  return std::string(extensions_of(format).front());
}

// Without the extension of its format: "x.tfrecord.gz" -> "x".
std::string stem_of(const fs::path& path, const std::string& format) {
  const std::string name = path.filename().string();
  for (const std::string_view end : extensions_of(format)) {
    if (name.ends_with(end) && name.size() > end.size()) {
      return name.substr(0, name.size() - end.size());
    }
  }
  return path.stem().string();
}

class Conversion {
 public:
  explicit Conversion(const ConvertOptions& options) : options_(options) {}

  Result<ConvertReport> run() {
    ASSIGN_OR_RETURN(list_, list_files(options_.from));
    ASSIGN_OR_RETURN(target_, open_format(options_.to, options_.to_options));
    ASSIGN_OR_RETURN(engine_, io::open_engine("posix"));
    FilesOptions from = options_.from;
    from.format = list_.format;
    ASSIGN_OR_RETURN(source_, open_samples(std::move(from)));
    RETURN_IF_ERROR(plan());
    if (options_.begin) options_.begin(source_.source->sample_count());
    RETURN_IF_ERROR(write_all());
    report_.sample_count = source_.source->sample_count();
    return std::move(report_);
  }

 private:
  // Decides which samples go into which file.
  Status plan() {
    const uint64_t count = source_.source->sample_count();
    const std::string end = extension_of(options_.to);
    const fs::path name = options_.destination.filename();
    std::error_code ignored;
    const bool is_file =
        has_name_of(name.string(), options_.to) && !fs::is_directory(options_.destination, ignored);
    directory_ = is_file ? options_.destination.parent_path() : options_.destination;
    if (is_file) {
      if (target_->is_file_a_sample() && count != 1) {
        return fail(Errc::kInvalidArgument,
                    "a {} file is one sample, but there are {}; give a directory", options_.to,
                    count);
      }
      pieces_.push_back({name.string(), 0, count});
    } else if (target_->is_file_a_sample()) {
      plan_one_each(count, end);
    } else if (options_.samples_per_file != 0) {
      for (uint64_t at = 0; at < count; at += options_.samples_per_file) {
        pieces_.push_back({fmt::format("samples-{:05}{}", pieces_.size(), end), at,
                           std::min(count, at + options_.samples_per_file)});
      }
    } else {
      RETURN_IF_ERROR(plan_by_file(end));
    }
    return check_names();
  }

  void plan_one_each(uint64_t count, const std::string& end) {
    for (uint64_t i = 0; i < count; ++i) {
      const bool is_file_a_sample = list_.paths.size() == count;
      pieces_.push_back({is_file_a_sample ? stem_of(list_.paths[i], list_.format) + end
                                          : fmt::format("sample-{:08}{}", i, end),
                         i, i + 1});
    }
  }

  Status plan_by_file(const std::string& end) {
    const data::SampleSource& source = *source_.source;
    if (source.group_count() != list_.paths.size()) {
      return fail(Errc::kInvalidArgument,
                  "the samples of {} files are not kept by file; choose --samples-per-file",
                  list_.format);
    }
    if (source_.format->is_file_a_sample() && list_.paths.size() > 1) {
      return fail(Errc::kInvalidArgument,
                  "each of the {} source files is one sample; choose --samples-per-file, or name "
                  "one {} file",
                  list_.paths.size(), options_.to);
    }
    for (size_t i = 0; i < list_.paths.size(); ++i) {
      pieces_.push_back({stem_of(list_.paths[i], list_.format) + end,
                         static_cast<uint64_t>(source.group_begin(i)),
                         static_cast<uint64_t>(source.group_begin(i + 1))});
    }
    return {};
  }

  static Error exists_error(const fs::path& path) {
    return fail(Errc::kAlreadyExists, "{}: exists; remove it or choose another destination",
                printable(path.string()));
  }

  Status check_names() const {
    std::set<std::string_view> names;
    for (const Piece& piece : pieces_) {
      if (!names.insert(piece.name).second) {
        return fail(Errc::kInvalidArgument,
                    "two source files would both become {}; choose --samples-per-file",
                    printable(piece.name));
      }
      if (fs::exists(directory_ / piece.name)) return exists_error(directory_ / piece.name);
    }
    return {};
  }

  Status write_all() {
    RETURN_IF_ERROR(make_destination());
    ASSIGN_OR_RETURN(
        const TemporaryDirectory temporary,
        TemporaryDirectory::create(directory_.empty() ? "." : directory_, ".millrace-convert-"));
    const size_t threads = options_.thread_count != 0 ? options_.thread_count : usable_cpu_count();
    ThreadPool pool(std::clamp<size_t>(pieces_.size(), 1, threads));
    RETURN_IF_ERROR(pool.parallel_for(pieces_.size(), [&](size_t i) -> Status {
      const std::string path = (temporary.path() / pieces_[i].name).string();
      RETURN_IF_ERROR(write(pieces_[i], path));
      return options_.verify ? verify(pieces_[i], path) : Status();
    }));
    return publish(temporary.path());
  }

  Status make_destination() {
    if (directory_.empty()) return {};
    std::error_code error;
    fs::create_directories(directory_, error);
    if (!error || fs::is_directory(directory_)) return {};
    return fail_os(error.value(), "cannot create the directory")
        .within(printable(directory_.string()));
  }

  Status write(const Piece& piece, const std::string& path) {
    ASSIGN_OR_RETURN(const auto writer, target_->create(*engine_, path));
    Fields fields(options_);
    for (uint64_t i = piece.begin; i < piece.end; ++i) {
      ASSIGN_OR_RETURN(const auto list, fields.of(source_, SampleId{i}));
      auto added = writer->add(fmt::format("{:08}", i), list);
      if (!added.ok()) return std::move(added).error().within(source_.source->name(SampleId{i}));
      if (options_.done_sample) options_.done_sample();
    }
    return writer->finish();
  }

  Status verify(const Piece& piece, const std::string& path) {
    ASSIGN_OR_RETURN(const Samples copy, open_samples({.format = options_.to,
                                                       .format_options = options_.to_options,
                                                       .paths = {path},
                                                       .thread_count = 1}));
    if (copy.source->sample_count() != piece.end - piece.begin) {
      return fail(Errc::kCorrupt, "{}: has {} samples, but {} were written", printable(piece.name),
                  copy.source->sample_count(), piece.end - piece.begin);
    }
    Fields fields(options_);
    SampleFields read;
    data::Buffer room;
    for (uint64_t i = piece.begin; i < piece.end; ++i) {
      ASSIGN_OR_RETURN(const auto written, fields.of(source_, SampleId{i}));
      ASSIGN_OR_RETURN(const ByteView bytes, copy.source->read(SampleId{i - piece.begin}, room));
      RETURN_IF_ERROR(split_sample(copy, bytes, read).within(printable(piece.name)));
      RETURN_IF_ERROR(compare(written, read, copy.source->label(SampleId{i - piece.begin}))
                          .within(source_.source->name(SampleId{i}))
                          .within(printable(piece.name)));
    }
    return {};
  }

  static Status compare(std::span<const Field> written, const SampleFields& read,
                        std::optional<int64_t> label) {
    // A format without names has one array, and perhaps a label outside of it.
    const bool has_no_names = read.list().size() == 1;
    for (const Field& field : written) {
      if (field.name == "label" && label && read.find("label") == nullptr) {
        const auto values = as_doubles(field.array);
        if (values && values->size() == 1 && values->front() == static_cast<double>(*label)) {
          continue;
        }
      }
      const Field* found = read.find(field.name);
      if (found == nullptr && has_no_names) found = &read.list()[0];
      if (found == nullptr || !has_same_values(field, *found)) {
        return fail(Errc::kCorrupt, "'{}' is not read back as it was written",
                    printable(field.name));
      }
    }
    return {};
  }

  // Moves the files to their place; if that fails for one, removes those before it.
  Status publish(const fs::path& temporary) {
    std::vector<fs::path> moved;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(temporary, error)) {
      const fs::path place = directory_ / entry.path().filename();
      report_.size_bytes += entry.file_size(error);
      // Formats write more than one file for a piece: check_names() does not know all names.
      if (const int failed = rename_to_new(entry.path(), place); failed != 0) {
        for (const fs::path& path : moved) fs::remove(path, error);
        if (failed == EEXIST) return exists_error(place);
        return fail_os(failed, "cannot rename a complete file to it")
            .within(printable(place.string()));
      }
      moved.push_back(place);
    }
    for (const Piece& piece : pieces_) report_.files.push_back(directory_ / piece.name);
    return {};
  }

  const ConvertOptions& options_;
  FileList list_;
  std::unique_ptr<Format> target_;
  std::unique_ptr<io::Engine> engine_;
  Samples source_;
  fs::path directory_;  // of the destination files; empty: the current one
  std::vector<Piece> pieces_;
  ConvertReport report_;
};

}  // namespace

bool has_same_values(const Field& written, const Field& read) {
  const bool has_same_bytes = text_of(written.array.bytes) == text_of(read.array.bytes);
  if (has_same_bytes && (written.array.type == read.array.type || are_plain_bytes(read))) {
    return true;
  }
  if (written.array.shape.element_count() != read.array.shape.element_count()) return false;
  const auto before = as_doubles(written.array);
  const auto after = as_doubles(read.array);
  if (!before || !after) return false;
  // "0.1" of a float is read as a double that is not the float.
  const bool is_narrow = written.array.type == ElementType::kF32;
  return std::ranges::equal(*before, *after, [&](double a, double b) {
    if (is_narrow) b = static_cast<double>(static_cast<float>(b));
    return a == b || (a != a && b != b);  // NaN is not equal to itself
  });
}

Result<ConvertReport> convert_files(const ConvertOptions& options) {
  return Conversion(options).run();
}

}  // namespace millrace::format
