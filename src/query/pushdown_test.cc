// Conditions of a query reduce what is read and do not change the result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"
#include "query/asking.h"

namespace millrace::query {
namespace {

using namespace std::chrono_literals;
using analyze::Program;
using analyze::TraceBuilder;
using testing::ElementsAre;

constexpr uint64_t kBlockEvents = 65'536;

// Two ranks. Rank 0 has three full blocks with one event per microsecond; one in a thousand is a
// write. Rank 1 has one block with regions and stdio calls.
class Pushdown : public testing::Test {
 protected:
  Pushdown() {
    TraceBuilder job((directory_->path() / "t.mrt").string());
    const Program rank0 = job.program({.rank = 0, .world_size = 2, .host = "node1"});
    const Program rank1 = job.program({.rank = 1, .world_size = 2, .host = "node2"});
    for (uint64_t i = 0; i < 3 * kBlockEvents; ++i) {
      const analyze::EventSpec spec{
          .at = std::chrono::microseconds(i), .takes = 100ns, .offset = i, .size = i % 7};
      if (i % 1000 == 0) {
        rank0.write("/out", spec);
      } else {
        rank0.read(i % 2 == 0 ? "/data/a" : "/data/b", spec);
      }
    }
    rank1.region("read", {.at = 10us, .takes = 1us});
    rank1.region("pread", {.at = 20us, .takes = 1us});
    rank1.call(wire::Call::kFread, "/data/a", {.at = 30us, .size = 5});
    trace_.emplace(job.finish());
    auto opened = Database::open(*trace_, {});
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    database_.emplace(*std::move(opened));
  }

  struct Cost {
    std::vector<std::string> rows;
    uint64_t blocks = 0;
    uint64_t given = 0;
  };
  Cost cost(std::string_view sql) {
    const Counters before = database_->counters();
    Cost cost{.rows = ask(*database_, sql)};
    cost.blocks = database_->counters().blocks_read - before.blocks_read;
    cost.given = database_->counters().rows - before.rows;
    return cost;
  }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
  std::optional<trace::Trace> trace_;
  std::optional<Database> database_;
};

TEST_F(Pushdown, RangesOfBeginSkipBlocks) {
  ASSERT_EQ(trace_->blocks().size(), 4u);
  EXPECT_EQ(cost("select count(*) from events").blocks, 4u);
  // The last block of rank 0 begins at 131,072 us.
  Cost late = cost("select count(*), min(begin) from events where begin >= 140000000");
  EXPECT_THAT(late.rows, ElementsAre("56608|140000000"));
  EXPECT_EQ(late.blocks, 1u);
  EXPECT_EQ(late.given, 56'608u);
  Cost middle = cost("select count(*) from events where begin between 70000000 and 70005000.5");
  EXPECT_THAT(middle.rows, ElementsAre("6"));
  EXPECT_EQ(middle.blocks, 1u);
  EXPECT_EQ(middle.given, 6u);
  Cost early = cost("select count(*) from events where begin < 5000 and rank = 0");
  EXPECT_THAT(early.rows, ElementsAre("5"));
  EXPECT_EQ(early.blocks, 1u);
  EXPECT_EQ(cost("select count(*) from events where begin = null").blocks, 0u);
  EXPECT_EQ(cost("select count(*) from events where begin > 1e30").blocks, 0u);
  EXPECT_THAT(cost("select count(*) from events where begin > -1e30").rows, ElementsAre("196611"));
  EXPECT_THAT(cost("select count(*) from events where begin < 'text'").rows, ElementsAre("196611"));
  EXPECT_THAT(cost("select count(*) from events where begin in (1000, 2000, 10000)").rows,
              ElementsAre("4"));
}

TEST_F(Pushdown, ProcessesSkipBlocks) {
  for (const char* condition : {"rank = 1", "pid = 1001", "pid = '1001'", "host = 'node2'",
                                "process = 1", "rank in (1, 5)"}) {
    Cost of = cost(fmt::format("select count(*) from events where {}", condition));
    EXPECT_THAT(of.rows, ElementsAre("3")) << condition;
    EXPECT_EQ(of.blocks, 1u) << condition;
  }
  EXPECT_THAT(cost("select count(*) from events where rank = 7").rows, ElementsAre("0"));
  EXPECT_THAT(cost("select count(*) from events where rank is null").rows, ElementsAre("0"));
}

TEST_F(Pushdown, LayersSkipBlocksWithoutThem) {
  Cost stdio = cost("select name, file from events where layer = 'stdio'");
  EXPECT_THAT(stdio.rows, ElementsAre("fread|/data/a"));
  EXPECT_EQ(stdio.blocks, 1u);
  EXPECT_EQ(stdio.given, 1u);
  EXPECT_EQ(cost("select count(*) from regions").blocks, 1u);
}

TEST_F(Pushdown, NamesKindsAndFilesAreFilteredBeforeSqliteSeesRows) {
  Cost writes = cost("select count(*) from events where name = 'pwrite'");
  EXPECT_THAT(writes.rows, ElementsAre("197"));
  EXPECT_EQ(writes.given, 197u);
  EXPECT_EQ(cost("select count(*) from events where kind = 'write'").given, 197u);
  EXPECT_EQ(cost("select count(*) from events where file = '/out'").given, 197u);
  EXPECT_EQ(cost("select count(*) from events where name in ('pwrite', 'fread')").given, 198u);
  EXPECT_EQ(cost("select count(*) from events where name = 'pwrite' and file = '/data/a'").given,
            0u);
}

TEST_F(Pushdown, ARegionMayBeNamedLikeACall) {
  EXPECT_THAT(cost("select kind, count(*) from events where name = 'pread' group by kind "
                   "order by kind")
                  .rows,
              ElementsAre("read|196411", "region|1"));
  EXPECT_THAT(cost("select name, count(*) from events group by name order by name").rows,
              ElementsAre("fread|1", "pread|196412", "pwrite|197", "read|1"));
}

TEST_F(Pushdown, OtherCollationsAndTypesAreLeftToSqlite) {
  EXPECT_THAT(cost("select count(*) from events where name = 'PWRITE' collate nocase").rows,
              ElementsAre("197"));
  EXPECT_THAT(cost("select count(*) from events where name = 5").rows, ElementsAre("0"));
  EXPECT_THAT(cost("select count(*) from events where pid = 1001.0").rows, ElementsAre("3"));
  EXPECT_THAT(cost("select count(*) from events where pid = 'x' or name = 'fread'").rows,
              ElementsAre("1"));
}

// Grouping must give the same result as SQLite's sorting, which `+name` enforces.
TEST_F(Pushdown, GroupsEqualThoseFoundBySorting) {
  for (const auto& [columns, opaque] : std::vector<std::pair<const char*, const char*>>{
           {"name", "+name"},
           {"file", "+file"},
           {"layer, name", "+layer, +name"},
           {"rank, kind, file", "+rank, +kind, +file"},
           {"pid, tid, host, process, errno, role, epoch, step",
            "+pid, +tid, +host, +process, +errno, +role, +epoch, +step"}}) {
    const auto grouped = [&](const char* by) {
      auto rows = cost(fmt::format("select {}, count(*), sum(size), min(begin), max(offset), "
                                   "sum(duration), count(distinct file) from events group by {}",
                                   columns, by))
                      .rows;
      std::sort(rows.begin(), rows.end());
      return rows;
    };
    EXPECT_EQ(grouped(columns), grouped(opaque)) << columns;
  }
  EXPECT_THAT(cost("select distinct name from events order by name").rows,
              ElementsAre("fread", "pread", "pwrite", "read"));
  EXPECT_THAT(
      cost("select kind, name from events group by kind, name order by kind desc, name").rows,
      ElementsAre("write|pwrite", "region|pread", "region|read", "read|fread", "read|pread"));
  EXPECT_THAT(cost("select role, rank, count(*) from events group by 1, 2 order by 1, 2 desc").rows,
              ElementsAre("NULL|1|2", "NULL|0|196608", "read|1|1"));
  EXPECT_EQ(cost("select distinct kind, layer from events").rows.size(), 5u);
}

TEST_F(Pushdown, TheInnerSideOfAJoinReadsABlockOnce) {
  Cost of = cost(
      "select count(*) from regions r join events e on e.begin >= r.begin and e.begin < "
      "r.begin + r.duration where e.rank = 0");
  EXPECT_THAT(of.rows, ElementsAre("2"));
  EXPECT_LE(of.blocks, 1u + 3u + 1u);
}

TEST_F(Pushdown, AllSidesOfASelfJoinKeepTheirPosition) {
  EXPECT_THAT(cost("select count(*) from regions a join events b on b.rank = a.rank join events c "
                   "on c.rank = b.rank where b.kind = 'region'")
                  .rows,
              ElementsAre("12"));
}

}  // namespace
}  // namespace millrace::query
