// The text of a LoaderState: docs/formats/loader-state.md.
#include <limits>

#include "base/fields.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "loader/loader.h"

namespace millrace::loader {
namespace {

constexpr uint64_t kStateVersion = 2;
// Means the same, except that partial shuffling had another order.
constexpr uint64_t kStateVersionBefore = 1;

Status read_dataset(Fields& fields, std::optional<uint32_t>& dataset) {
  if (!fields.has("dataset")) return {};
  uint64_t number = 0;
  RETURN_IF_ERROR(fields.read("dataset", number));
  if (number > std::numeric_limits<uint32_t>::max()) {
    return fields.complain("dataset", fmt::format("{} does not fit into 32 bits", number));
  }
  dataset = static_cast<uint32_t>(number);
  return {};
}

Result<LoaderState> state_in(Fields& fields) {
  LoaderState state;
  std::string shuffle;
  uint64_t shard_count = 0;
  uint64_t epoch = 0;
  RETURN_IF_ERROR(fields.require("shuffle", shuffle));
  RETURN_IF_ERROR(fields.require("samples", state.order.sample_count));
  RETURN_IF_ERROR(read_dataset(fields, state.dataset));
  RETURN_IF_ERROR(fields.require("seed", state.order.seed));
  RETURN_IF_ERROR(fields.require("shards", shard_count));
  RETURN_IF_ERROR(fields.require("fraction", state.order.fraction));
  RETURN_IF_ERROR(fields.require("epoch", epoch));
  RETURN_IF_ERROR(fields.require("done", state.done));
  RETURN_IF_ERROR(fields.finish());
  ASSIGN_OR_RETURN(state.order.shuffle, order::shuffle_from(shuffle).within("shuffle"));
  if (shard_count > std::numeric_limits<uint32_t>::max()) {
    return fields.complain("shards", fmt::format("{} is too many", shard_count));
  }
  state.order.shard_count = static_cast<uint32_t>(shard_count);
  state.epoch = data::Epoch{epoch};
  RETURN_IF_ERROR(order::check_order(state.order));
  if (state.done > state.order.sample_count) {
    return fields.complain("done", fmt::format("{} of {} samples is impossible", state.done,
                                               state.order.sample_count));
  }
  return state;
}

}  // namespace

std::string LoaderState::text() const {
  JsonWriter json;
  json.begin_object(JsonLayout::kOneLine);
  json.field("version", kStateVersion);
  json.field("shuffle", order::shuffle_name(order.shuffle));
  json.field("samples", order.sample_count);
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
  if (of_state.seed != own.seed) return differs("seed", of_state.seed, own.seed);
  if (of_state.fraction != own.fraction) {
    return differs("fraction", of_state.fraction, own.fraction);
  }
  if (state.done > own.sample_count) {
    return fail(Errc::kInvalidArgument, "the state has consumed {} of {} samples", state.done,
                own.sample_count);
  }
  return {};
}

}  // namespace millrace::loader
