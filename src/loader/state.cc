// The text of a LoaderState: docs/formats/loader-state.md.
#include <limits>

#include "base/text/fields.h"
#include "base/text/json.h"
#include "base/text/json_writer.h"
#include "loader/loader.h"

namespace millrace::loader {
namespace {

constexpr uint64_t kStateVersion = 2;
// Means the same, except that partial shuffling had another order.
constexpr uint64_t kStateVersionBefore = 1;

Status read_fingerprint(Fields& fields, std::string_view key,
                        std::optional<uint32_t>& fingerprint) {
  if (!fields.has(key)) return {};
  uint64_t number = 0;
  RETURN_IF_ERROR(fields.read(key, number));
  if (number > std::numeric_limits<uint32_t>::max()) {
    return fields.complain(key, fmt::format("{} does not fit into 32 bits", number));
  }
  fingerprint = static_cast<uint32_t>(number);
  return {};
}

// What only drawn orders have.
Status read_drawing(Fields& fields, LoaderState& state) {
  if (order::is_permutation(state.order.shuffle)) return {};
  RETURN_IF_ERROR(fields.require("positions", state.order.position_count));
  return read_fingerprint(fields, "drawn_from", state.drawn_from);
}

Result<LoaderState> state_in(Fields& fields) {
  LoaderState state;
  std::string shuffle;
  uint64_t shard_count = 0;
  uint64_t epoch = 0;
  RETURN_IF_ERROR(fields.require("shuffle", shuffle));
  ASSIGN_OR_RETURN(state.order.shuffle, order::shuffle_from(shuffle).within("shuffle"));
  RETURN_IF_ERROR(fields.require("samples", state.order.sample_count));
  RETURN_IF_ERROR(read_drawing(fields, state));
  RETURN_IF_ERROR(read_fingerprint(fields, "dataset", state.dataset));
  RETURN_IF_ERROR(fields.require("seed", state.order.seed));
  RETURN_IF_ERROR(fields.require("shards", shard_count));
  RETURN_IF_ERROR(fields.require("fraction", state.order.fraction));
  RETURN_IF_ERROR(fields.require("epoch", epoch));
  RETURN_IF_ERROR(fields.require("done", state.done));
  RETURN_IF_ERROR(fields.finish());
  if (shard_count > std::numeric_limits<uint32_t>::max()) {
    return fields.complain("shards", fmt::format("{} is too many", shard_count));
  }
  state.order.shard_count = static_cast<uint32_t>(shard_count);
  state.epoch = data::Epoch{epoch};
  RETURN_IF_ERROR(order::check_order(state.order));
  const uint64_t position_count = order::position_count(state.order);
  if (state.done > position_count) {
    return fields.complain(
        "done", fmt::format("{} of {} samples is impossible", state.done, position_count));
  }
  return state;
}

}  // namespace

LoaderState LoaderState::of(const order::Order& order, data::Epoch epoch, uint64_t done) {
  const order::Options& options = order.options();
  // Not a copy of all options: weights of a million samples are megabytes.
  return {.order = {.shuffle = options.shuffle,
                    .sample_count = options.sample_count,
                    .seed = options.seed,
                    .shard_count = options.shard_count,
                    .fraction = options.fraction,
                    .position_count = options.position_count},
          .epoch = epoch,
          .done = done,
          .drawn_from = order.drawn_from(epoch)};
}

std::string LoaderState::text() const {
  JsonWriter json;
  json.begin_object(JsonLayout::kOneLine);
  json.field("version", kStateVersion);
  json.field("shuffle", order::shuffle_name(order.shuffle));
  json.field("samples", order.sample_count);
  if (!order::is_permutation(order.shuffle)) {
    json.field("positions", order.position_count);
    if (drawn_from) json.field("drawn_from", *drawn_from);
  }
  if (dataset) json.field("dataset", *dataset);
  json.field("seed", order.seed);
  json.field("shards", order.shard_count);
  json.field("fraction", order.fraction);
  json.field("epoch", data::number_of(epoch));
  json.field("done", done);
  json.end_object();
  std::string text = std::move(json).finish();
  text.pop_back();  // the newline
  return text;
}

Result<LoaderState> LoaderState::parse(std::string_view text) {
  constexpr std::string_view kName = "loader state";
  ASSIGN_OR_RETURN(const Document document, parse_json(text, std::string(kName)));
  ASSIGN_OR_RETURN(Fields fields, Fields::of(document, document.root));
  uint64_t version = 0;
  RETURN_IF_ERROR(fields.require("version", version));
  if (version != kStateVersion && version != kStateVersionBefore) {
    return fail(Errc::kUnsupported,
                "the loader state has version {}; this build reads versions {} and {}. Use the "
                "build that wrote it, or start the epoch again",
                version, kStateVersionBefore, kStateVersion);
  }
  auto state = state_in(fields);
  if (state.ok() && version == kStateVersionBefore && state->order.shuffle == Shuffle::kPartial) {
    return fail(Errc::kUnsupported,
                "the loader state has version {}, which had another order for partial shuffling: "
                "some samples would repeat and others would be missing. Use the build that wrote "
                "it, or start the epoch again",
                version);
  }
  // Errors of a field already start with its place.
  if (!state.ok() && !state.error().message().starts_with(kName)) {
    return std::move(state).within(kName);
  }
  return state;
}

Status check_continues(const LoaderState& state, const LoaderState& own_state) {
  const order::Options& own = own_state.order;
  const auto differs = [](std::string_view what, const auto& of_state, const auto& of_loader) {
    return fail(Errc::kInvalidArgument,
                "the state has another order: its {} is {}, this loader's {}; open the loader with "
                "the options that the state was saved with",
                what, of_state, of_loader);
  };
  const order::Options& of_state = state.order;
  if (of_state.sample_count != own.sample_count) {
    return differs("number of samples", of_state.sample_count, own.sample_count);
  }
  if (state.dataset && own_state.dataset && state.dataset != own_state.dataset) {
    return fail(
        Errc::kInvalidArgument,
        "the state is of another dataset: it has {} samples too, but with other names, in another "
        "order or with other classes. Restore the files, or start the epoch again",
        own.sample_count);
  }
  if (of_state.shuffle != own.shuffle) {
    return differs("shuffle", order::shuffle_name(of_state.shuffle),
                   order::shuffle_name(own.shuffle));
  }
  if (of_state.position_count != own.position_count) {
    return differs("number of positions in an epoch", of_state.position_count, own.position_count);
  }
  if (state.drawn_from && own_state.drawn_from && state.drawn_from != own_state.drawn_from) {
    return fail(Errc::kInvalidArgument,
                "the state has another order: its {} differ from this loader's; open the loader "
                "with those that the state was saved with",
                of_state.shuffle == Shuffle::kWeighted  ? "weights"
                : of_state.shuffle == Shuffle::kMixture ? "parts or proportions"
                                                        : "indices of the epoch");
  }
  if (of_state.seed != own.seed) return differs("seed", of_state.seed, own.seed);
  if (of_state.fraction != own.fraction) {
    return differs("fraction", of_state.fraction, own.fraction);
  }
  if (state.done > order::position_count(own)) {
    return fail(Errc::kInvalidArgument, "the state has consumed {} of {} samples", state.done,
                order::position_count(own));
  }
  return {};
}

}  // namespace millrace::loader
