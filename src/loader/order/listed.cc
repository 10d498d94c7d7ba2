// Listed orders: the program gives a list of samples for each epoch (EpochLists in drawing.h).
//
// The program calls its function itself and hands over the result. Loader threads never call it, so
// it needs no lock of theirs, and its errors are raised where the program can see them.
#include "data/fingerprint.h"
#include "loader/order/drawing.h"
#include "loader/order/drawn_order.h"
#include "loader/order/kinds.h"

namespace millrace::loader::order {
namespace {

class ListedOrder final : public DrawnOrder {
 public:
  explicit ListedOrder(const Options& options) : DrawnOrder(options) {}

  bool knows(data::Epoch epoch) const override { return lists().find(epoch) != nullptr; }
  // The list of the next epoch is known, and not more.
  uint32_t horizon_max() const override { return 1; }

  std::optional<uint32_t> drawn_from(data::Epoch epoch) const override {
    const auto list = lists().find(epoch);
    if (!list) return std::nullopt;
    return data::fingerprint(*list);
  }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    const auto list = lists().find(epoch);
    return data::SampleId{list ? (*list)[position] : 0};
  }

  // A list can be missing only for a batch that was dropped before it was begun: a start of another
  // epoch drops all batches, and the lists of the two latest epochs are always kept.
  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    const auto list = lists().find(epoch);
    for (data::SampleId& sample : out) {
      sample = data::SampleId{list ? (*list)[first] : 0};
      first += stride;
    }
  }

 private:
  const EpochLists& lists() const { return *options().drawing->lists; }
};

}  // namespace

std::unique_ptr<Order> make_listed_order(const Options& options) {
  return std::make_unique<ListedOrder>(options);
}

}  // namespace millrace::loader::order
