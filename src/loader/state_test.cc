#include <gmock/gmock.h>

#include <string>

#include "loader/loader.h"

namespace millrace::loader {
namespace {

using testing::HasSubstr;

LoaderState some_state() {
  return {.order = {.shuffle = Shuffle::kPartial,
                    .sample_count = 1'281'167,
                    .seed = ~uint64_t{0},
                    .shard_count = 64,
                    .fraction = 0.1},
          .epoch = data::Epoch{17},
          .done = 65'536};
}

std::string refused(const std::string& text) {
  const auto state = LoaderState::parse(text);
  return state.ok() ? "" : state.error().message();
}

// The text with one part changed.
std::string changed(std::string_view from, std::string_view to) {
  std::string text = some_state().text();
  return text.replace(text.find(from), from.size(), to);
}

TEST(LoaderState, IsOneLineOfText) {
  EXPECT_EQ(some_state().text(),
            R"({"version": 2, "shuffle": "partial", "samples": 1281167, )"
            R"("seed": 18446744073709551615, "shards": 64, "fraction": 0.1, "epoch": 17, )"
            R"("done": 65536})");
}

TEST(LoaderState, ContainsTheFingerprintOfTheDatasetIfKnown) {
  LoaderState state = some_state();
  state.dataset = 3507606406;
  EXPECT_THAT(state.text(), HasSubstr(R"("samples": 1281167, "dataset": 3507606406, "seed")"));
  const auto read = LoaderState::parse(state.text());
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->dataset, 3507606406u);
  EXPECT_EQ(LoaderState::parse(some_state().text())->dataset, std::nullopt);
  EXPECT_THAT(refused(changed("\"seed\"", "\"dataset\": 4294967296, \"seed\"")),
              HasSubstr("4294967296 does not fit into 32 bits"));
}

TEST(LoaderState, OfADrawnOrderHasItsPositionsAndFingerprint) {
  LoaderState state{.order = {.shuffle = Shuffle::kWeighted,
                              .sample_count = 100,
                              .seed = 7,
                              .position_count = 250},
                    .epoch = data::Epoch{17},
                    .done = 200,
                    .drawn_from = 12345};
  EXPECT_EQ(state.text(),
            R"({"version": 2, "shuffle": "weighted", "samples": 100, "positions": 250, )"
            R"("drawn_from": 12345, "seed": 7, "shards": 1, "fraction": 0, "epoch": 17, )"
            R"("done": 200})");
  const auto read = LoaderState::parse(state.text());
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->text(), state.text());
  EXPECT_EQ(read->order.position_count, 250u);
  EXPECT_EQ(read->drawn_from, 12345u);
  state.done = 251;
  EXPECT_THAT(refused(state.text()), HasSubstr("251 of 250 samples"));
  state.done = 0;
  state.drawn_from.reset();
  EXPECT_EQ(refused(state.text()), "");
  std::string text = state.text();
  text.replace(text.find("weighted"), 8, "global");
  EXPECT_THAT(refused(text), HasSubstr("positions"));
  EXPECT_THAT(refused(changed("\"partial\"", "\"mixture\"")), HasSubstr("positions"));
}

TEST(LoaderState, SurvivesARoundTrip) {
  const auto state = LoaderState::parse(some_state().text());
  ASSERT_TRUE(state.ok()) << state.error().message();
  EXPECT_EQ(state->text(), some_state().text());
  EXPECT_EQ(state->order.shard_count, 64u);
  EXPECT_EQ(state->done, 65'536u);
}

TEST(LoaderState, OfThePreviousVersionIsAcceptedIfItsOrderIsUnchanged) {
  const std::string partial = changed("\"version\": 2", "\"version\": 1");
  EXPECT_THAT(refused(partial), HasSubstr("version 1, which had another order for partial"));
  std::string global = partial;
  global.replace(global.find("partial"), 7, "global");
  EXPECT_EQ(refused(global), "");
}

TEST(LoaderState, EveryFieldMustBePresentAndValid) {
  EXPECT_THAT(refused(""), HasSubstr("loader state:1: "));
  EXPECT_THAT(refused("[]"), HasSubstr("loader state"));
  EXPECT_THAT(refused(some_state().text() + "x"), HasSubstr("loader state:1: "));
  EXPECT_THAT(refused(changed("\"version\": 2", "\"version\": 3")),
              HasSubstr("has version 3; this build reads versions 1 and 2"));
  EXPECT_THAT(refused(changed("\"partial\"", "\"partly\"")), HasSubstr("unknown shuffle 'partly'"));
  EXPECT_THAT(refused(changed("1281167", "-1")), HasSubstr("samples"));
  EXPECT_THAT(refused(changed("1281167", "9223372036854775809")), HasSubstr("can have at most"));
  EXPECT_THAT(refused(changed("\"shards\": 64", "\"shards\": 4294967296")), HasSubstr("too many"));
  EXPECT_THAT(refused(changed("\"shards\": 64", "\"shards\": 0")), HasSubstr("0 shards"));
  EXPECT_THAT(refused(changed("0.1", "1.5")), HasSubstr("is 1.5"));
  EXPECT_THAT(refused(changed("65536", "1281168")), HasSubstr("1281168 of 1281167 samples"));
  EXPECT_THAT(refused(changed(", \"done\": 65536", "")), HasSubstr("done"));
  EXPECT_THAT(refused(changed("\"done\"", "\"don\"")), HasSubstr("done"));
  EXPECT_THAT(refused(changed("{", "{\"extra\": 1, ")), HasSubstr("extra"));
}

}  // namespace
}  // namespace millrace::loader
