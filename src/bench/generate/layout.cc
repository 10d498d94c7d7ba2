#include "bench/generate/layout.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::bench {
namespace {

constexpr uint32_t kSizesSeed = 10;                    // of DLIO's generators
constexpr uint64_t kFileBytesMax = uint64_t{1} << 62;  // far from overflows of what is added
constexpr double kAxisMax = 4294967295.0;              // a Square has 32 bits

// The normal numbers of numpy.random.seed(s) and numpy.random.normal(), bit for bit: DLIO draws the
// sizes of its files from them, so a dataset has the same files here. This is NumPy's legacy
// generator: MT19937, 53 bits of two outputs, and the polar method, which makes two numbers at a
// time.
class NumpyNormal {
 public:
  explicit NumpyNormal(uint32_t seed) : bits_(seed) {}

  double next(double mean, double stdev) { return mean + stdev * standard(); }

 private:
  double standard() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    double first = 0;
    double other = 0;
    double square = 0;
    do {
      first = 2 * uniform() - 1;
      other = 2 * uniform() - 1;
      square = first * first + other * other;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    second_ = factor * first;
    has_second_ = true;
    return factor * other;
  }

  double uniform() {
    const auto high = static_cast<double>(bits_() >> 5);
    const auto low = static_cast<double>(bits_() >> 6);
    return (high * 0x1p26 + low) * 0x1p-53;
  }

  std::mt19937 bits_;  // the standard defines its output, unlike that of its distributions
  double second_ = 0;
  bool has_second_ = false;
};

std::string padded(uint64_t index, uint64_t count) {
  const size_t digits = std::to_string(count).size();
  return fmt::format("{:0>{}}", index, digits);
}

// Truncated as Python's int() does, and at least 1.
uint32_t axis_length(double drawn) {
  return static_cast<uint32_t>(std::clamp(std::trunc(drawn), 1.0, kAxisMax));
}

}  // namespace

std::string_view split_name(Split split) { return split == Split::kTrain ? "train" : "valid"; }

bool is_gzip_text(const DatasetConfig& dataset) {
  return dataset.compression == Compression::kGzip && dataset.traits().delimiter != 0;
}

std::string data_folder_of(const Workload& workload) {
  std::filesystem::path folder = workload.dataset.data_folder;
  const std::string& root = workload.storage_root;
  if (!root.empty() && root != "." && root != "./") folder = root / folder;
  std::string text = folder.string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text.empty() ? "." : text;
}

Result<Layout> Layout::of(const Workload& workload) {
  const DatasetConfig& dataset = workload.dataset;
  Layout layout;
  layout.data_folder_ = data_folder_of(workload);
  layout.file_prefix_ = dataset.file_prefix;
  layout.extension_ = dataset.traits().extension();
  if (is_gzip_text(dataset)) layout.extension_ += ".gz";
  // One subfolder counts as no subfolder, as in DLIO.
  const auto folders = [](uint64_t count) { return count > 1 ? count : 0; };
  layout.splits_[0] = {.file_count = dataset.num_files_train,
                       .subfolder_count = folders(dataset.num_subfolders_train)};
  layout.splits_[1] = {.file_count = dataset.num_files_eval,
                       .subfolder_count = folders(dataset.num_subfolders_eval)};
  layout.samples_per_file_ = dataset.num_samples_per_file;
  if (!dataset.traits().is_image) layout.element_type_ = dataset.record_element_type;
  RETURN_IF_ERROR(layout.set_shape(dataset));
  RETURN_IF_ERROR(layout.check_sizes());
  return layout;
}

Status Layout::set_shape(const DatasetConfig& dataset) {
  if (!dataset.record_dims.empty()) {
    auto shape = data::Shape::make(dataset.record_dims);
    if (!shape.ok()) return std::move(shape).error().within("dataset.record_dims");
    shape_ = *shape;
    return {};
  }
  const double length = dataset.record_length_bytes;
  const double root = std::sqrt(length);
  const double side = std::floor(root);
  const double stdev = dataset.record_length_bytes_stdev / 2 / root;
  if (!(dataset.record_length_bytes_stdev > 0) || root == 0) {
    const auto axis = std::max<uint64_t>(static_cast<uint64_t>(side), 1);
    shape_ = {axis, axis};
    return {};
  }
  squares_.resize(static_cast<size_t>(file_count()));
  NumpyNormal random(kSizesSeed);
  for (Square& square : squares_) {
    square.rows = axis_length(random.next(side, stdev));
    square.columns = axis_length(random.next(side, stdev));
  }
  return {};
}

Status Layout::check_sizes() const {
  uint64_t elements_max = squares_.empty() ? shape_.element_count() : 0;
  for (const Square& square : squares_) {
    elements_max = std::max(elements_max, uint64_t{square.rows} * square.columns);
  }
  const uint64_t record_max = kFileBytesMax / data::element_bytes(element_type_);
  if (elements_max > record_max || samples_per_file_ == 0 ||
      elements_max > record_max / samples_per_file_) {
    return fail(Errc::kInvalidArgument,
                "a file with {} samples of {} elements of {} is not possible; reduce "
                "dataset.num_samples_per_file or dataset.record_length_bytes",
                samples_per_file_, elements_max, data::element_name(element_type_));
  }
  return {};
}

FileId Layout::file_at(uint64_t position) const {
  const uint64_t train_count = file_count(Split::kTrain);
  if (position < train_count) return {.split = Split::kTrain, .index = position};
  return {.split = Split::kEval, .index = position - train_count};
}

std::string Layout::folder(Split split) const {
  return fmt::format("{}/{}", data_folder_, split_name(split));
}

std::string Layout::subfolder(Split split, uint64_t index) const {
  return fmt::format("{}/{}", folder(split), padded(index, subfolder_count(split)));
}

std::string Layout::file_name(FileId file) const {
  const uint64_t count = file_count(file.split);
  return fmt::format("{}_{}_of_{}.{}", file_prefix_, padded(file.index, count), count, extension_);
}

std::string Layout::path(FileId file) const {
  const uint64_t folders = subfolder_count(file.split);
  return fmt::format(
      "{}/{}", folders == 0 ? folder(file.split) : subfolder(file.split, file.index % folders),
      file_name(file));
}

data::Shape Layout::record_shape(FileId file) const {
  if (squares_.empty()) return shape_;
  const uint64_t before = file.split == Split::kTrain ? 0 : file_count(Split::kTrain);
  const Square& square = squares_[static_cast<size_t>(before + file.index)];
  return {square.rows, square.columns};
}

uint64_t Layout::record_bytes(FileId file) const {
  return record_shape(file).element_count() * data::element_bytes(element_type_);
}

uint64_t Layout::payload_bytes(Split split) const {
  const uint64_t count = file_count(split);
  if (squares_.empty()) return count * payload_bytes(FileId{.split = split});
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += payload_bytes(FileId{.split = split, .index = i});
  return sum;
}

}  // namespace millrace::bench
