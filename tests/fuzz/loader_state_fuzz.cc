// Any text is a loader state or an error. A state that is written and read back is the same, and
// makes a usable order.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "loader/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using loader::LoaderState;
  const auto state = LoaderState::parse({reinterpret_cast<const char*>(data), size});
  if (!state.ok()) {
    if (state.error().message().find("loader state") == std::string::npos) std::abort();
    return 0;
  }
  const auto again = LoaderState::parse(state->text());
  if (!again.ok() || again->text() != state->text()) std::abort();
  if (state->done > loader::order::position_count(state->order)) std::abort();
  if (state->order.shuffle == loader::Shuffle::kFile) return 0;        // needs the files too
  if (!loader::order::is_permutation(state->order.shuffle)) return 0;  // needs what to draw from
  const auto order = loader::order::make_order(state->order);
  if (!order.ok()) std::abort();
  // A walk through as many epochs as the number allows would never end.
  const data::Epoch epoch{data::number_of(state->epoch) % 8};
  if (state->done == (*order)->size()) return 0;
  const data::SampleId sample = (*order)->at(epoch, state->done);
  if ((*order)->position_of(epoch, sample) != state->done) std::abort();
  return 0;
}
