#include "query/query.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"
#include "query/asking.h"
#include "query/schema.h"

namespace millrace::query {
namespace {

using namespace std::chrono_literals;
using analyze::Program;
using analyze::TraceBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two ranks and a worker, with epochs 0 and 1 of one step each. The job begins at 1 ms.
class Query : public testing::Test {
 protected:
  Query() {
    TraceBuilder job((directory_->path() / "t.mrt").string());
    const Program rank0 = job.program({.rank = 0, .world_size = 2, .host = "node1"});
    const Program rank1 = job.program({.rank = 1, .world_size = 2, .host = "node2"});
    const Program other = job.program({.host = "node1", .command = "sh -c \"mpirun\""});
    rank0.open("/data/a", {.at = 1ms, .takes = 10us});
    rank0.read("/data/a", {.at = 2ms, .takes = 100us, .offset = 0, .size = 4096});
    rank0.read("/data/a", {.at = 3ms, .takes = 50us, .offset = 4096, .size = 4096, .result = 904});
    rank0.close("/data/a", {.at = 4ms, .takes = 1us});
    rank0.region("compute", {.at = 2ms, .takes = 3ms, .epoch = 0, .step = 0});
    rank0.region("compute", {.at = 12ms, .takes = 3ms, .epoch = 1, .step = 5});
    rank0.region("my own", {.at = 13ms, .takes = 1ms});
    rank0.read("/data/b", {.at = 13ms, .takes = 20us, .offset = 0, .size = 100});
    rank1.open("/data/none", {.at = 5ms, .takes = 7us, .result = -1, .error = 2});
    rank1.write("/out/log\xff", {.at = 6ms, .takes = 9us, .size = 10});
    other.call(wire::Call::kExec, "/bin/sh", {.at = 1500us});
    trace_.emplace(job.finish());
    auto opened = Database::open(*trace_, {});
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    database_.emplace(*std::move(opened));
  }

  std::vector<std::string> ask(std::string_view sql) { return query::ask(*database_, sql); }
  std::string error_of(std::string_view sql) { return ask_for_error(*database_, sql); }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
  std::optional<trace::Trace> trace_;
  std::optional<Database> database_;
};

TEST_F(Query, GroupsCountsAndSums) {
  EXPECT_THAT(ask("select name, count(*), sum(size), sum(result), sum(duration) from events "
                  "where layer = 'posix' group by name order by name"),
              ElementsAre("close|1|0|0|1000", "exec|1|0|0|1000", "open|2|0|2|17000",
                          "pread|3|8292|5100|170000", "pwrite|1|10|10|9000"));
}

TEST_F(Query, TimesAreRelativeToTheFirstEvent) {
  EXPECT_THAT(
      ask("select name, begin, duration, wall_ns from events order by begin limit 2"),
      ElementsAre("open|0|10000|1700000000001000000", "exec|500000|1000|1700000000001500000"));
}

TEST_F(Query, MissingValuesAreNull) {
  EXPECT_THAT(ask("select name, file, offset, size, result, role, rank, epoch, step, other_file, "
                  "error, tags from events where name in ('exec', 'my own') order by begin"),
              ElementsAre("exec|/bin/sh|NULL|0|0|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
                          "my own|NULL|NULL|NULL|NULL|NULL|0|1|5|NULL|NULL|NULL"));
  EXPECT_THAT(ask("select count(*), count(file), count(rank), count(offset) from events"),
              ElementsAre("11|8|10|3"));
}

TEST_F(Query, ErrorsHaveANumberAndAName) {
  EXPECT_THAT(ask("select name, file, result, errno, error from events where errno"),
              ElementsAre("open|/data/none|-1|2|ENOENT"));
  EXPECT_THAT(ask("select count(*) from events where errno = 0"), ElementsAre("10"));
}

TEST_F(Query, RegionsHaveTheirOwnEpochAndCallsTheCurrentOne) {
  EXPECT_THAT(ask("select name, epoch, step from events where rank = 0 order by begin, name"),
              ElementsAre("open|NULL|NULL", "compute|0|0", "pread|0|0", "pread|0|0", "close|0|0",
                          "compute|1|5", "my own|1|5", "pread|1|5"));
  EXPECT_THAT(ask("select epoch, sum(result) from events where kind = 'read' group by epoch"),
              ElementsAre("0|5000", "1|100"));
}

TEST_F(Query, RegionsAreATable) {
  EXPECT_THAT(ask("select name, role, layer, epoch, step, begin, duration, pid, tid, rank, host, "
                  "tags from regions order by begin"),
              ElementsAre("compute|compute|application|0|0|1000000|3000000|1000|1000|0|node1|NULL",
                          "compute|compute|application|1|5|11000000|3000000|1000|1000|0|node1|NULL",
                          "my own|NULL|application|1|5|12000000|1000000|1000|1000|0|node1|NULL"));
}

TEST_F(Query, RolesCanBeSet) {
  Options options;
  options.analyze.roles.push_back(*analyze::parse_role_rule("fetch=my*"));
  auto opened = Database::open(*trace_, std::move(options));
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT(query::ask(*opened, "select name from events where layer = 'loader'"),
              ElementsAre("my own"));
}

TEST_F(Query, FilesAreSummedOverTheJob) {
  EXPECT_THAT(ask("select path, kind, opens, reads, bytes_read, read_ns, metadata_ns, first_ns, "
                  "last_ns, size_bytes "
                  "from files where kind = 'data' order by path"),
              ElementsAre("/data/a|data|1|2|5000|150000|11000|0|3001000|5000",
                          "/data/b|data|0|1|100|20000|0|12000000|12020000|100"));
  EXPECT_THAT(ask("select errors, opens from files where path = '/data/none'"), ElementsAre("1|1"));
  EXPECT_THAT(ask("select count(*) from files where path = 'nowhere'"), ElementsAre("0"));
}

TEST_F(Query, EventsJoinWithFiles) {
  EXPECT_THAT(ask("select e.name, e.offset, f.bytes_read from events e join files f on "
                  "e.file = f.path where f.kind = 'data' and e.kind = 'read' order by e.begin"),
              ElementsAre("pread|0|5000", "pread|4096|5000", "pread|0|100"));
  EXPECT_THAT(ask("select f.path, count(*) from files f join events e on e.file = f.path "
                  "where e.name = 'pread' group by f.path order by 1"),
              ElementsAre("/data/a|2", "/data/b|1"));
}

TEST_F(Query, EventsJoinWithTheRegionsAroundThem) {
  EXPECT_THAT(
      ask("select r.epoch, e.name, e.file from regions r join events e on e.process = "
          "r.process and e.begin >= r.begin and e.begin < r.begin + r.duration "
          "where r.name = 'compute' and e.kind <> 'region' order by e.begin"),
      ElementsAre("0|pread|/data/a", "0|pread|/data/a", "0|close|/data/a", "1|pread|/data/b"));
}

TEST_F(Query, ProcessesAreATable) {
  EXPECT_THAT(
      ask("select process, pid, parent, rank, host, command, start, end, exit_code, events, "
          "world_size from processes"),
      ElementsAre("0|1000|1|0|node1|python train.py|0|14000000|0|8|2",
                  "1|1001|1|1|node2|python train.py|4000000|5009000|0|2|2",
                  "2|1002|1|NULL|node1|sh -c \"mpirun\"|500000|501000|0|1|NULL"));
  EXPECT_THAT(ask("select p.command, count(*) from events e join processes p on p.process = "
                  "e.process group by p.process order by 2 desc limit 1"),
              ElementsAre("python train.py|8"));
}

TEST(QueryOfWorkers, AWorkerBelongsToTheRankThatStartedIt) {
  const auto directory = TemporaryDirectory::create();
  TraceBuilder job((directory->path() / "t.mrt").string());
  const Program rank3 = job.program({.rank = 3, .world_size = 4});
  const Program worker = job.program({.parent_pid = rank3.pid()});
  rank3.region("compute", {.at = 1ms, .takes = 5ms, .epoch = 2, .step = 9});
  worker.read("/data/a", {.at = 2ms, .size = 10});
  const trace::Trace trace = job.finish();
  auto database = Database::open(trace, {});
  ASSERT_TRUE(database.ok());
  EXPECT_THAT(ask(*database, "select pid, rank, epoch, step from events where kind = 'read'"),
              ElementsAre("1001|3|2|9"));
  EXPECT_THAT(ask(*database, "select count(*) from events where rank = 3"), ElementsAre("2"));
  EXPECT_THAT(ask(*database, "select pid, rank from processes order by pid"),
              ElementsAre("1000|3", "1001|3"));
}

TEST_F(Query, NamesThatAreNotUtf8KeepTheirBytes) {
  EXPECT_THAT(ask("select file from events where name = 'pwrite'"), ElementsAre("/out/log\xff"));
  EXPECT_THAT(ask("select writes from files where path = '/out/log\xff'"), ElementsAre("1"));
  EXPECT_THAT(ask("select path from files where kind = 'output'"), ElementsAre("/out/log\xff"));
}

TEST_F(Query, PercentilesAreInterpolated) {
  EXPECT_THAT(ask("with v(x) as (values (10), (40), (NULL), (20), (30)) select percentile(x, 0), "
                  "percentile(x, 50), percentile(x, 90), percentile(x, 100) from v"),
              ElementsAre("10|25|37|40"));
  EXPECT_THAT(ask("select name, percentile(duration, 50) from events where errno = 0 and rank = 0 "
                  "and kind = 'read' group by name"),
              ElementsAre("pread|50000"));
  EXPECT_THAT(ask("select percentile(size, 99) from events where kind = 'region'"),
              ElementsAre("NULL"));
  EXPECT_THAT(ask("select percentile(size, 99) from events where pid = 0"), ElementsAre("NULL"));
  EXPECT_THAT(error_of("select percentile(size, 101) from events"), HasSubstr("from 0 to 100"));
  EXPECT_THAT(error_of("select percentile(size, 'x') from events"), HasSubstr("from 0 to 100"));
  EXPECT_THAT(error_of("select percentile(size, pid % 100) from events"), HasSubstr("the same P"));
  EXPECT_THAT(error_of("select percentile(name, 5) from events"), HasSubstr("needs numbers"));
}

TEST_F(Query, LimitsAndOffsetsCountRows) {
  EXPECT_THAT(ask("select name from events where rank = 0 order by begin, name limit 2 offset 1"),
              ElementsAre("compute", "pread"));
  EXPECT_THAT(ask("select count(*) from (select 1 from events limit 5)"), ElementsAre("5"));
  EXPECT_THAT(ask("select name from events where begin < 0"), IsEmpty());
}

TEST_F(Query, EveryColumnOfEveryTableCanBeRead) {
  for (const TableSchema& table : tables()) {
    TextRows sink;
    const Status status = database_->run(fmt::format("select * from {}", table.name), sink);
    ASSERT_TRUE(status.ok()) << status.error().message();
    ASSERT_EQ(sink.titles.size(), table.columns.size());
    for (size_t i = 0; i < sink.titles.size(); ++i)
      EXPECT_EQ(sink.titles[i], table.columns[i].name);
    EXPECT_THAT(sink.rows, testing::Not(IsEmpty())) << table.name;
    for (const ColumnSchema& column : table.columns) {
      EXPECT_EQ(error_of(fmt::format("select {} from {}", column.name, table.name)), "");
    }
  }
}

TEST_F(Query, SqlErrorsHaveAPosition) {
  EXPECT_EQ(error_of("select nam from events"),
            "the query: no such column: nam (line 1, column 8, at 'nam from events'); `millrace "
            "query --schema` lists tables and columns");
  EXPECT_EQ(error_of("select *\n  from event"),
            "the query: no such table: event; `millrace query --schema` lists tables and columns");
  EXPECT_EQ(error_of("select *\nfrm events"),
            "the query: near \"frm\": syntax error (line 2, column 1, at 'frm events')");
  EXPECT_EQ(error_of("select abs() from events"),
            "the query: wrong number of arguments to function abs() (line 1, column 8, at 'abs() "
            "from events')");
  EXPECT_EQ(error_of(" -- nothing\n"), "the query is empty");
  EXPECT_THAT(error_of("select 1; select 2"), HasSubstr("one query at a time"));
  EXPECT_THAT(error_of("select * from events where pid = ?"), HasSubstr("write the value"));
  EXPECT_EQ(error_of("select 1; -- the end\n"), "");
}

TEST_F(Query, NothingCanBeWrittenOrAttached) {
  const std::string path = (directory_->path() / "new.db").string();
  for (const std::string& sql : std::vector<std::string>{
           fmt::format("attach '{}' as x", path), fmt::format("vacuum into '{}'", path),
           "create table t(a)", "create temp table t(a)", "insert into events(name) values('x')",
           "delete from files", "update processes set pid = 1", "select load_extension('x')",
           "pragma temp_store_directory = '/'", "pragma writable_schema = 1", "begin",
           "drop table events", "create temp view v as select 1", "detach main"}) {
    EXPECT_NE(error_of(sql), "") << sql;
  }
  EXPECT_THAT(error_of(fmt::format("attach '{}' as x", path)), HasSubstr("only a single SELECT"));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_THAT(ask("select count(*) from events"), ElementsAre("11"));
}

TEST_F(Query, TheUserCanInterruptIt) {
  std::atomic<bool> stop = true;
  Options options;
  options.stop = &stop;
  auto opened = Database::open(*trace_, std::move(options));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(ask_for_error(*opened, "select count(*) from events"), "interrupted");
  EXPECT_EQ(ask_for_error(*opened, "select name from events group by name"), "interrupted");
  EXPECT_EQ(ask_for_error(*opened, "select count(*) from files"), "interrupted");
  EXPECT_EQ(ask_for_error(*opened,
                          "with recursive n(i) as (select 1 union all select i + 1 from n) "
                          "select max(i) from n"),
            "interrupted");
  stop = false;
  EXPECT_THAT(query::ask(*opened, "select count(*) from files"), testing::SizeIs(1));
}

TEST_F(Query, AnErrorOfTheSinkEndsTheQuery) {
  class Full : public TextRows {
    Status row(std::span<const Value>) override { return fail(Errc::kExhausted, "full"); }
  };
  Full full;
  const Status status = database_->run("select * from events", full);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message(), "full");
}

TEST(QueryOfNothing, ATraceWithoutEventsHasEmptyTables) {
  const auto directory = TemporaryDirectory::create();
  TraceBuilder job((directory->path() / "t.mrt").string());
  job.program({});
  const trace::Trace trace = job.finish();
  auto database = Database::open(trace, {});
  ASSERT_TRUE(database.ok());
  EXPECT_THAT(ask(*database, "select count(*), min(begin) from events"), ElementsAre("0|NULL"));
  EXPECT_THAT(ask(*database, "select name, count(*) from events group by name"), IsEmpty());
  EXPECT_THAT(ask(*database, "select count(*) from files"), ElementsAre("0"));
  EXPECT_THAT(ask(*database, "select events from processes"), ElementsAre("0"));
}

}  // namespace
}  // namespace millrace::query
