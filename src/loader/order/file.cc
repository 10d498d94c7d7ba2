// Shuffling by file: files (groups of samples) come in another order each epoch; the samples of a
// file stay in file order.
//
// Files differ in length, so the begin of a file in an epoch depends on all files before it. That
// takes a table of 16 bytes per file, built on the first use of an epoch.
#include <algorithm>
#include <vector>

#include "base/numbers/permutation.h"
#include "loader/order/kept_epochs.h"
#include "loader/order/kinds.h"
#include "loader/order/order_key.h"

namespace millrace::loader::order {
namespace {

// The files of one epoch.
struct FileTable {
  KeyedPermutation files;        // place of a file in the epoch -> file
  std::vector<uint64_t> begins;  // position of the first sample of the file at a place, and the end
};

class FileOrder : public Order {
 public:
  explicit FileOrder(const Options& options)
      : options_(options), files_(options.group_begins.size() - 1, {}) {}

  const Options& options() const override { return options_; }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    const auto table = table_of(epoch);
    return sample_at(*table, place_of(*table, position), position);
  }

  uint64_t position_of(data::Epoch epoch, data::SampleId sample) const override {
    const std::vector<uint64_t>& begins = options_.group_begins;
    const uint64_t index = data::index_of(sample);
    const auto after = std::ranges::upper_bound(begins, index);
    const auto file = static_cast<uint64_t>(after - begins.begin()) - 1;
    const auto table = table_of(epoch);
    return table->begins[table->files.inverse(file)] + (index - begins[file]);
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    if (out.empty()) return;
    const auto table = table_of(epoch);
    uint64_t end = 0;     // of the current file
    uint64_t offset = 0;  // from its positions to its samples, modulo 2^64
    for (data::SampleId& sample : out) {
      if (first >= end) {
        const size_t place = place_of(*table, first);
        end = table->begins[place + 1];
        offset = data::index_of(sample_at(*table, place, first)) - first;
      }
      sample = data::SampleId{first + offset};
      first += stride;
    }
  }

 private:
  // The last place that begins at or before the position. This skips empty files.
  static size_t place_of(const FileTable& table, uint64_t position) {
    const auto after = std::ranges::upper_bound(table.begins, position);
    return static_cast<size_t>(after - table.begins.begin()) - 1;
  }

  data::SampleId sample_at(const FileTable& table, size_t place, uint64_t position) const {
    const uint64_t file = table.files.at(place);
    return data::SampleId{options_.group_begins[file] + (position - table.begins[place])};
  }

  std::shared_ptr<const FileTable> table_of(data::Epoch epoch) const {
    return tables_.find(epoch, [&] { return make_table(epoch); });
  }

  FileTable make_table(data::Epoch epoch) const {
    FileTable table{.files = files_.with_key(order_key(
                        {.seed = options_.seed, .epoch = epoch, .purpose = Purpose::kFile})),
                    .begins = {0}};
    table.begins.reserve(files_.size() + 1);
    for (uint64_t place = 0; place < files_.size(); ++place) {
      const uint64_t file = table.files.at(place);
      table.begins.push_back(table.begins.back() + options_.group_begins[file + 1] -
                             options_.group_begins[file]);
    }
    return table;
  }

  Options options_;
  KeyedPermutation files_;  // without a key yet
  KeptEpochs<FileTable> tables_{2};
};

}  // namespace

std::unique_ptr<Order> make_file_order(const Options& options) {
  return std::make_unique<FileOrder>(options);
}

}  // namespace millrace::loader::order
