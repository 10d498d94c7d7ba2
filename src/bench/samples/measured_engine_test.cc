#include "bench/samples/measured_engine.h"

#include <gmock/gmock.h>

#include "base/io/temporary_directory.h"
#include "io/testing/engine_contract.h"
#include "io/testing/memory_engine.h"

namespace millrace::bench {
namespace {

std::vector<io::ContractClause> clauses() {
  std::vector<io::ContractClause> all(io::contract().begin(), io::contract().end());
  all.insert(all.end(), io::contract_faults().begin(), io::contract_faults().end());
  return all;
}

class MeasuredEngineContract
    : public testing::TestWithParam<std::tuple<std::string, io::ContractClause>> {};

TEST_P(MeasuredEngineContract, HoldsAsForTheEngineBelow) {
  const auto& [name, clause] = GetParam();
  const auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  std::shared_ptr<io::Engine> below = *io::open_engine(name);
  MeasuredEngine engine(below, {}, std::make_shared<ReadCounts>());
  io::Ground ground{engine, directory->path()};
  const Status kept = clause.check(ground);
  EXPECT_TRUE(kept.ok()) << kept.error().message();
}

INSTANTIATE_TEST_SUITE_P(In, MeasuredEngineContract,
                         testing::Combine(testing::Values("posix", "auto"),
                                          testing::ValuesIn(clauses())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::string(std::get<1>(info.param).name);
                         });

class InPieces : public testing::TestWithParam<PieceOptions> {};

TEST_P(InPieces, ReadsTheSameBytes) {
  const auto memory = std::make_shared<io::MemoryEngine>();
  const auto counts = std::make_shared<ReadCounts>();
  MeasuredEngine engine(memory, GetParam(), counts);
  io::Ground ground{engine, "/d"};
  ASSERT_TRUE(io::write_pattern(ground, "file", 1000).ok());
  const auto reader = *engine.open("/d/file");
  std::vector<std::byte> room(300);
  for (const uint64_t offset : {0, 1, 99, 100, 700, 701, 990, 1000, 5}) {
    const Status right = io::check_read(*reader, 1000, offset, room);
    EXPECT_TRUE(right.ok()) << offset << ": " << right.error().message();
  }
  std::vector<std::byte> whole(1500);
  EXPECT_EQ(*engine.read_whole("/d/file", whole), 1000);
  EXPECT_THAT(engine.read_whole("/d/file", MutableByteView(whole).first(999)).error().message(),
              testing::HasSubstr("1000 bytes"));
}

INSTANTIATE_TEST_SUITE_P(OfAnyLength, InPieces,
                         testing::Values(PieceOptions{.piece_bytes = 1},
                                         PieceOptions{.piece_bytes = 64},
                                         PieceOptions{.piece_bytes = 4096},
                                         PieceOptions{.piece_bytes = 64, .keeps_last = true},
                                         PieceOptions{.piece_bytes = 4096, .keeps_last = true},
                                         PieceOptions{.piece_bytes = 256, .first_bytes = 100},
                                         PieceOptions{.piece_bytes = 64, .reads_end = true}));

TEST(MeasuredEngine, CountsWhatReachesTheStorage) {
  const auto memory = std::make_shared<io::MemoryEngine>();
  const auto counts = std::make_shared<ReadCounts>();
  MeasuredEngine engine(memory, {.piece_bytes = 256, .keeps_last = true}, counts);
  io::Ground ground{engine, "/d"};
  ASSERT_TRUE(io::write_pattern(ground, "file", 1000).ok());
  const auto reader = *engine.open("/d/file");
  std::vector<std::byte> room(10);
  for (uint64_t offset = 0; offset < 1000; offset += 10) {
    ASSERT_TRUE(reader->read_at(offset, room).ok());
  }
  EXPECT_EQ(counts->reads, 4);
  EXPECT_EQ(counts->bytes, 1000);
}

// As Pillow does: a first read, the rest of a piece, whole pieces, and one at the end.
TEST(MeasuredEngine, ReadsAFileAsABufferedFileOfPython) {
  const auto memory = std::make_shared<io::MemoryEngine>();
  const auto counts = std::make_shared<ReadCounts>();
  MeasuredEngine engine(memory, {.piece_bytes = 256, .first_bytes = 100, .reads_end = true},
                        counts);
  io::Ground ground{engine, "/d"};
  ASSERT_TRUE(io::write_pattern(ground, "file", 600).ok());
  std::vector<std::byte> room(600);
  EXPECT_EQ(*engine.read_whole("/d/file", room), 600);
  EXPECT_EQ(counts->reads, 5);  // 100, 156, 256, 88, 0
  EXPECT_EQ(counts->bytes, 600);
}

}  // namespace
}  // namespace millrace::bench
