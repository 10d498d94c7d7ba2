#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "base/io/file.h"
#include "data/testing/source_contract.h"
#include "format/file_source.h"
#include "format/parquet/parquet_file.h"
#include "format/parquet/parquet_source.h"
#include "format/parquet/parquet_writer.h"
#include "io/testing/memory_engine.h"

// A namespace of its own: the tests of format share a unit, and names like put() are common.
namespace millrace::format::parquet_rows {
namespace {

using data::ElementType;
using data::SampleId;
using parquet::Codec;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = ParquetColumn::Kind;

constexpr const char* kGolden[] = {"v1_none", "v1_snappy", "v1_gzip",
                                   "v1_zstd", "v2_zstd",   "v2_deltas"};

std::string golden(std::string_view name) {
  return fmt::format("tests/golden/parquet/{}.parquet", name);
}

template <typename T>
std::vector<T> numbers(const Field& field) {
  EXPECT_EQ(field.array.bytes.size() % sizeof(T), 0u);
  std::vector<T> out(field.array.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), field.array.bytes.data(), field.array.bytes.size());
  return out;
}

template <typename T>
T number(const Field& field) {
  EXPECT_EQ(field.array.shape.axis_count(), 0u) << field.name;
  return numbers<T>(field).at(0);
}

std::string text(const Field& field) { return std::string(text_of(field.array.bytes)); }

Result<Samples> open_rows(std::vector<std::filesystem::path> paths,
                          std::vector<std::string> columns = {},
                          std::shared_ptr<io::Engine> engine = nullptr) {
  FilesOptions options{.format = "parquet", .paths = std::move(paths), .engine = std::move(engine)};
  options.format_options.columns = std::move(columns);
  options.thread_count = 2;
  if (!options.engine) {
    ASSIGN_OR_RETURN(auto posix, io::open_engine("posix"));
    options.engine = std::move(posix);
  }
  return open_samples(std::move(options));
}

template <typename T>
std::string error_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().message();
}

struct Row {
  data::Buffer room;
  SampleFields fields;

  Status read(const Samples& samples, uint64_t index) {
    ASSIGN_OR_RETURN(const ByteView bytes, samples.source->read(SampleId{index}, room));
    return samples.format->split(bytes, fields);
  }
  const Field& operator[](std::string_view name) const { return *fields.find(name); }
};

void expect_numbers(const Row& row, int64_t k) {
  EXPECT_EQ(number<uint8_t>(row["b"]), k % 3 == 0 ? 1 : 0);
  EXPECT_EQ(number<int8_t>(row["i8"]), k - 10);
  EXPECT_EQ(number<uint8_t>(row["u8"]), k * 12);
  EXPECT_EQ(number<int16_t>(row["i16"]), k * -300);
  EXPECT_EQ(number<uint16_t>(row["u16"]), k * 3000);
  EXPECT_EQ(number<int32_t>(row["i32"]), k * 100003 - 5);
  EXPECT_EQ(number<uint32_t>(row["u32"]), k * 200000000);
  EXPECT_EQ(number<int64_t>(row["i64"]), k * 1'000'000'000'000 - 1);
  EXPECT_EQ(number<uint64_t>(row["u64"]), static_cast<uint64_t>(k) * 900'000'000'000'000'000);
  EXPECT_EQ(row["f16"].array.type, ElementType::kF16);
  EXPECT_EQ(number<uint16_t>(row["f16"]) == 0, k == 0);
  EXPECT_EQ(number<float>(row["f32"]), static_cast<float>(k) / 8);
  EXPECT_EQ(number<double>(row["f64"]), static_cast<double>(k) * 1.5 - 7);
  EXPECT_EQ(number<int16_t>(row["nn"]), k * 7);
}

void expect_the_rest(const Row& row, int64_t k) {
  EXPECT_EQ(text(row["s"]), fmt::format("row {}", k % 3));
  EXPECT_EQ(text(row["bin"]), std::string(static_cast<size_t>(k % 5), 'x') + static_cast<char>(k));
  EXPECT_EQ(row["fixed"].array.shape, data::Shape({3}));
  EXPECT_THAT(numbers<uint8_t>(row["fixed"]), ElementsAre(k, k + 1, k + 2));
  std::vector<int32_t> items;
  for (int64_t i = 0; i < k % 4; ++i) items.push_back(static_cast<int32_t>(k * 10 + i));
  EXPECT_EQ(numbers<int32_t>(row["list"]), items);
  EXPECT_EQ(row["list"].array.shape, data::Shape({items.size()}));
  const auto nf = number<double>(row["nf"]);
  EXPECT_TRUE(k % 3 == 1 ? std::isnan(nf) : nf == static_cast<double>(k) / 2);
  EXPECT_EQ(text(row["ns"]), k % 4 == 2 ? "" : std::to_string(k));
  EXPECT_EQ(number<int32_t>(row["ni"]), k % 5 == 0 ? 0 : k);
  EXPECT_EQ(number<uint8_t>(row["ni.valid"]), k % 5 != 0 ? 1 : 0);
  if (k % 6 < 2) {
    EXPECT_THAT(numbers<int64_t>(row["nl"]), IsEmpty());
  } else {
    EXPECT_THAT(numbers<int64_t>(row["nl"]), ElementsAre(k, k + 1));
  }
  EXPECT_EQ(number<uint8_t>(row["nl.valid"]), k % 6 != 0 ? 1 : 0);
  const auto nlf = numbers<float>(row["nlf"]);
  ASSERT_EQ(nlf.size(), k % 2 == 1 ? 2u : 1u);
  EXPECT_EQ(nlf[0], static_cast<float>(k) / 2);
  EXPECT_TRUE(nlf.size() == 1 || std::isnan(nlf[1]));
}

const std::vector<std::string> kAll = {
    "b", "i8",  "u8",    "i16",  "u16", "i32", "u32", "i64",      "u64", "f16",      "f32", "f64",
    "s", "bin", "fixed", "list", "nf",  "ns",  "ni",  "ni.valid", "nl",  "nl.valid", "nlf", "nn"};

TEST(ParquetGolden, FilesOfPyarrowHaveTheirValues) {
  for (const char* name : kGolden) {
    SCOPED_TRACE(name);
    const auto samples = open_rows({golden(name)}, kAll);
    ASSERT_EQ(error_of(samples), "");
    ASSERT_EQ(samples->source->sample_count(), 20u);
    Row row;
    for (uint64_t k = 0; k < 20; ++k) {
      SCOPED_TRACE(k);
      ASSERT_EQ(error_of(row.read(*samples, k)), "");
      ASSERT_EQ(row.fields.list().size(), kAll.size());
      expect_numbers(row, static_cast<int64_t>(k));
      expect_the_rest(row, static_cast<int64_t>(k));
    }
  }
}

TEST(ParquetGolden, RowGroupsAreGroups) {
  const auto samples = open_rows({golden("v1_none"), golden("v2_zstd")}, {"i32"});
  ASSERT_EQ(error_of(samples), "");
  std::vector<uint64_t> begins;
  for (uint64_t i = 0; i <= samples->source->group_count(); ++i) {
    begins.push_back(data::index_of(samples->source->group_begin(i)));
  }
  EXPECT_THAT(begins, ElementsAre(0, 8, 16, 20, 28, 36, 40));
  EXPECT_EQ(samples->source->name(SampleId{25}), golden("v2_zstd") + ": row 5");
}

TEST(ParquetGolden, ColumnsAreChosenInOrder) {
  const auto samples = open_rows({golden("v1_snappy")}, {"s", "b"});
  ASSERT_EQ(error_of(samples), "");
  Row row;
  ASSERT_EQ(error_of(row.read(*samples, 9)), "");
  EXPECT_EQ(row.fields.names(), "'s', 'b'");
}

TEST(ParquetGolden, AMissingColumnIsNamed) {
  EXPECT_THAT(error_of(open_rows({golden("v1_snappy")}, {"i33"})),
              HasSubstr("there is no column 'i33'; did you mean 'i32'?; the columns are b, i8"));
}

TEST(ParquetGolden, ANullThatAnIntegerCannotBeIsAnError) {
  const auto samples = open_rows({golden("v1_snappy")}, {"ni"});
  ASSERT_EQ(error_of(samples), "");
  Row row;
  EXPECT_EQ(error_of(row.read(*samples, 1)), "");
  EXPECT_THAT(error_of(row.read(*samples, 5)),
              HasSubstr("v1_snappy.parquet: row 5: column 'ni' is null"));
}

TEST(ParquetGolden, NestedColumnsAreReadOrRefused) {
  EXPECT_THAT(error_of(open_rows({golden("nested")})),
              HasSubstr("column 'words' cannot be read: it is a list of strings or byte arrays; "
                        "choose the other columns"));
  for (const char* name :
       {"map.key_value.value", "lists.list.element.list.element", "pairs.list.element.x"}) {
    EXPECT_THAT(error_of(open_rows({golden("nested")}, {name})), HasSubstr("cannot be read"))
        << name;
  }
  const auto samples = open_rows({golden("nested")}, {"plain", "pair.y"});
  ASSERT_EQ(error_of(samples), "");
  Row row;
  ASSERT_EQ(error_of(row.read(*samples, 3)), "");
  EXPECT_EQ(number<int64_t>(row["plain"]), 3);
  EXPECT_EQ(number<float>(row["pair.y"]), 1.5F);
}

TEST(ParquetGolden, FilesWithOtherColumnsAreRefused) {
  EXPECT_THAT(error_of(open_rows({golden("v1_none"), golden("nested")}, {})), HasSubstr("nested"));
}

TEST(ParquetSourceContract, IsKept) {
  const auto samples =
      open_rows({golden("v1_snappy"), golden("v2_zstd")}, {"i32", "s", "list", "nf", "b", "fixed"});
  ASSERT_EQ(error_of(samples), "");
  data::SourceUnderTest test{.source = samples->source, .samples = {}};
  for (uint64_t i = 0; i < 40; ++i) {
    data::Buffer room;
    const auto bytes = samples->source->read(SampleId{i}, room);
    ASSERT_TRUE(bytes.ok());
    test.samples.emplace_back(text_of(*bytes));
  }
  EXPECT_EQ(error_of(data::check_source(test)), "");
}

// ---- damaged files ----

std::string content_of(const std::string& path) {
  auto content = read_file(path);
  EXPECT_TRUE(content.ok());
  return *content;
}

void put(io::Engine& engine, const std::string& path, std::string_view content) {
  const auto writer = engine.create(path);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->write_at(0, bytes_of(content)).ok());
  ASSERT_TRUE((*writer)->close().ok());
}

// Reads everything, with low limits. Returns the first error.
std::string read_all(std::string_view content) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  put(*engine, "x", content);
  ParquetSourceOptions options;
  options.thread_count = 1;
  options.limits = {.page_bytes_max = 1 << 20, .chunk_bytes_max = 1 << 20};
  const auto source = ParquetSource::open(engine, {"x"}, options);
  if (!source.ok()) return source.error().message();
  std::string first;
  data::Buffer room;
  for (uint64_t group = 0; group < (*source)->group_count(); ++group) {
    const auto bytes = (*source)->read((*source)->group_begin(group), room);
    if (!bytes.ok() && first.empty()) first = bytes.error().message();
  }
  return first;
}

TEST(ParquetDamage, FlippedBitsNeverCrash) {
  for (const char* name : kGolden) {
    std::string content = content_of(golden(name));
    for (size_t bit = 0; bit < content.size() * 8; bit += 61) {
      content[bit / 8] = static_cast<char>(content[bit / 8] ^ 1 << (bit % 8));
      static_cast<void>(read_all(content));
      content[bit / 8] = static_cast<char>(content[bit / 8] ^ 1 << (bit % 8));
    }
  }
}

TEST(ParquetDamage, CutFilesAreRefused) {
  const std::string content = content_of(golden("v1_zstd"));
  for (size_t size = 0; size < content.size(); size += 13) {
    EXPECT_NE(read_all(std::string_view(content).substr(0, size)), "") << size;
  }
}

TEST(ParquetDamage, ChecksumsAreVerified) {
  std::string content = content_of(golden("v1_none"));
  const size_t at = content.find("row 0");
  ASSERT_NE(at, std::string::npos);
  content[at] = 'R';
  EXPECT_THAT(read_all(content),
              HasSubstr("x: row group 0: column 's': page 0: its 72 bytes have the checksum"));
}

// ---- writing ----

ParquetValues values_of(const auto& container, std::span<const uint64_t> offsets = {}) {
  return {.values = std::as_bytes(std::span(container)), .offsets = offsets};
}

struct Written {
  std::vector<float> x;
  std::vector<int64_t> repeating;
  std::vector<uint8_t> small;
  std::vector<uint8_t> flags;
  std::vector<int32_t> items;
  std::vector<uint64_t> item_offsets = {0};
  std::string words;
  std::vector<uint64_t> word_offsets = {0};

  explicit Written(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      x.push_back(static_cast<float>(i) * 1.25F);
      repeating.push_back(static_cast<int64_t>(i % 5) - 2);
      small.push_back(static_cast<uint8_t>(i * 3));
      flags.push_back(i % 3 == 0 ? 1 : 0);
      for (size_t k = 0; k < i * 7 % 30; ++k) items.push_back(static_cast<int32_t>(i * 100 + k));
      item_offsets.push_back(items.size());
      words += fmt::format("word{}", i % 11);
      word_offsets.push_back(words.size());
    }
  }

  static std::vector<ParquetColumn> columns() {
    return {
        {"x", Kind::kNumber, ElementType::kF32},    {"repeating", Kind::kNumber, ElementType::kI64},
        {"small", Kind::kNumber, ElementType::kU8}, {"flag", Kind::kNumber, ElementType::kBool},
        {"items", Kind::kList, ElementType::kI32},  {"words", Kind::kText, ElementType::kU8}};
  }

  // The rows [begin, end).
  std::vector<ParquetValues> values(size_t begin, size_t end) const {
    const size_t count = end - begin;
    return {values_of(std::span(x).subspan(begin, count)),
            values_of(std::span(repeating).subspan(begin, count)),
            values_of(std::span(small).subspan(begin, count)),
            values_of(std::span(flags).subspan(begin, count)),
            values_of(items, std::span(item_offsets).subspan(begin, count + 1)),
            values_of(words, std::span(word_offsets).subspan(begin, count + 1))};
  }
};

Result<std::string> bytes_in(io::Engine& engine, const std::string& path) {
  ASSIGN_OR_RETURN(const auto reader, engine.open(path));
  ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
  std::string content(size, '\0');
  ASSIGN_OR_RETURN(const size_t there,
                   reader->read_at(0, std::as_writable_bytes(std::span(content))));
  content.resize(there);
  return content;
}

Status write(io::Engine& engine, const Written& rows, size_t batch, ParquetWriteOptions options) {
  ASSIGN_OR_RETURN(const auto writer,
                   ParquetWriter::create(engine, "x.parquet", Written::columns(), options));
  for (size_t begin = 0; begin < rows.x.size(); begin += batch) {
    const size_t end = std::min(begin + batch, rows.x.size());
    RETURN_IF_ERROR(writer->append(end - begin, rows.values(begin, end)));
  }
  return writer->finish();
}

void expect_written(const std::shared_ptr<io::Engine>& engine, const Written& rows) {
  const auto samples = open_rows({"x.parquet"}, {}, engine);
  ASSERT_EQ(error_of(samples), "");
  ASSERT_EQ(samples->source->sample_count(), rows.x.size());
  Row row;
  for (size_t i = 0; i < rows.x.size(); ++i) {
    ASSERT_EQ(error_of(row.read(*samples, i)), "");
    ASSERT_EQ(number<float>(row["x"]), rows.x[i]);
    ASSERT_EQ(number<int64_t>(row["repeating"]), rows.repeating[i]);
    ASSERT_EQ(number<uint8_t>(row["small"]), rows.small[i]);
    ASSERT_EQ(number<uint8_t>(row["flag"]), rows.flags[i]);
    const auto items = numbers<int32_t>(row["items"]);
    ASSERT_EQ(items.size(), i * 7 % 30);
    ASSERT_TRUE(std::equal(items.begin(), items.end(),
                           rows.items.begin() + static_cast<ptrdiff_t>(rows.item_offsets[i])));
    ASSERT_EQ(text(row["words"]), fmt::format("word{}", i % 11));
  }
}

TEST(ParquetWriter, EveryCodecAndBatchRoundTrips) {
  const Written rows(1000);
  for (const Codec codec : {Codec::kNone, Codec::kSnappy, Codec::kGzip, Codec::kZstd}) {
    std::string first;
    for (const size_t batch : {1, 64, 100, 1000}) {
      const auto engine = std::make_shared<io::MemoryEngine>();
      const Status written = write(*engine, rows, batch,
                                   {.codec = codec,
                                    .row_group_rows = 300,
                                    .page_bytes = 500,
                                    .thread_count = batch % 3 + 1});
      if (codec == Codec::kGzip && error_of(written).find("install zlib") != std::string::npos) {
        break;
      }
      ASSERT_EQ(error_of(written), "");
      const auto content = bytes_in(*engine, "x.parquet");
      ASSERT_TRUE(content.ok());
      if (first.empty()) {
        first = *content;
        expect_written(engine, rows);
      }
      EXPECT_TRUE(first == *content) << "the file depends on the batches";
    }
  }
}

// The rows of all kinds of columns, each as long as the others.
struct EqualRows {
  static constexpr uint64_t kCount = 700;
  static constexpr uint64_t kItems[] = {1, 1, 1, 1, 3, 10};

  std::vector<std::vector<std::byte>> values;

  EqualRows() {
    const auto columns = Written::columns();
    for (size_t i = 0; i < columns.size(); ++i) {
      values.emplace_back(kCount * kItems[i] * data::element_bytes(columns[i].type));
      for (size_t at = 0; at < values[i].size(); ++at) {
        const bool is_flag = columns[i].type == ElementType::kBool;
        values[i][at] = static_cast<std::byte>(is_flag ? at % 2 : at * 7 + i);
      }
    }
  }

  void make(size_t column, uint64_t row, MutableByteView out) const {
    ASSERT_EQ(out.size() * kCount, values[column].size());
    std::memcpy(out.data(), values[column].data() + row * out.size(), out.size());
  }
};

TEST(ParquetWriter, RowsThatAreMadeGiveTheSameFile) {
  const EqualRows rows;
  std::vector<ParquetValues> all;
  for (const auto& each : rows.values) all.push_back({.values = each});
  for (const uint64_t group_rows : {0, 300}) {
    const ParquetWriteOptions options{
        .row_group_rows = group_rows, .page_bytes = 500, .use_dictionary = false};
    io::MemoryEngine engine;
    const auto at_once = ParquetWriter::create(engine, "a", Written::columns(), options);
    ASSERT_EQ(error_of(at_once), "");
    EXPECT_EQ(error_of((*at_once)->append(EqualRows::kCount, all)), "");
    EXPECT_EQ(error_of((*at_once)->finish()), "");
    const auto made = ParquetWriter::create(engine, "b", Written::columns(), options);
    ASSERT_EQ(error_of(made), "");
    EXPECT_EQ(error_of((*made)->append_made(EqualRows::kCount, EqualRows::kItems,
                                            [&](size_t column, uint64_t row, MutableByteView out) {
                                              rows.make(column, row, out);
                                            })),
              "");
    EXPECT_EQ(error_of((*made)->finish()), "");
    EXPECT_TRUE(*bytes_in(engine, "a") == *bytes_in(engine, "b")) << group_rows;
  }
}

TEST(ParquetWriter, RepeatingValuesHaveADictionary) {
  const Written rows(1000);
  const auto size = [&](bool use_dictionary) {
    io::MemoryEngine engine;
    EXPECT_EQ(error_of(write(engine, rows, 100, {.use_dictionary = use_dictionary})), "");
    return bytes_in(engine, "x.parquet")->size();
  };
  EXPECT_LT(size(true) + 10000, size(false));
}

TEST(ParquetWriter, LengthsThatDoNotFitAreRefused) {
  io::MemoryEngine engine;
  const auto writer = ParquetWriter::create(
      engine, "x", {{"n", Kind::kNumber, ElementType::kI32}, {"b", Kind::kBytes}}, {});
  ASSERT_EQ(error_of(writer), "");
  const std::vector<int32_t> two = {1, 2};
  const std::vector<uint64_t> falling = {0, 5, 3};
  const std::vector<uint64_t> rising = {0, 5, 6};
  EXPECT_THAT(error_of((*writer)->append(3, std::vector{values_of(two), values_of(two)})),
              HasSubstr("column 'n' has 8 bytes, which is not 3 rows"));
  EXPECT_THAT(error_of((*writer)->append(2, std::vector{values_of(two), values_of(two, falling)})),
              HasSubstr("do not rise"));
  EXPECT_EQ(error_of((*writer)->append(2, std::vector{values_of(two), values_of(two, rising)})),
            "");
  EXPECT_THAT(error_of(ParquetWriter::create(engine, "y", {{"n"}, {"n"}}, {})),
              HasSubstr("'n' of a column is empty or not unique"));
}

Field field_of(std::string_view name, ElementType type, data::Shape shape, const auto& values) {
  return {.name = name,
          .array = {.type = type, .shape = shape, .bytes = std::as_bytes(std::span(values))}};
}

TEST(ParquetSamples, ShapesComeBack) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  const auto format = *open_format("parquet");
  const auto writer = *format->create(*engine, "x.parquet");
  const std::vector<float> boxes(12, 0.5F);
  const std::vector<uint8_t> image(24, 7);
  const std::vector<int64_t> label = {3};
  for (uint64_t i = 1; i < 4; ++i) {
    const std::vector<Field> fields = {
        field_of("image", ElementType::kU8, {2, 4, 3}, image),
        field_of("boxes", ElementType::kF32, {i, 4}, std::span(boxes).first(i * 4)),
        field_of("label", ElementType::kI64, {}, label)};
    ASSERT_EQ(error_of(writer->add("s", fields)), "");
  }
  ASSERT_EQ(error_of(writer->finish()), "");
  const auto samples = open_rows({"x.parquet"}, {}, engine);
  ASSERT_EQ(error_of(samples), "");
  Row row;
  for (uint64_t i = 1; i < 4; ++i) {
    ASSERT_EQ(error_of(row.read(*samples, i - 1)), "");
    EXPECT_EQ(row["image"].array.shape, data::Shape({2, 4, 3}));
    EXPECT_EQ(row["boxes"].array.shape, data::Shape({i, 4}));
    EXPECT_EQ(row["label"].array.shape, data::Shape());
    EXPECT_EQ(number<int64_t>(row["label"]), 3);
  }
}

TEST(ParquetSamples, ASampleUnlikeTheFirstIsRefused) {
  io::MemoryEngine engine;
  const auto format = *open_format("parquet");
  const auto writer = *format->create(engine, "x.parquet");
  const std::vector<float> one = {1};
  ASSERT_EQ(error_of(writer->add("a", std::vector{field_of("x", ElementType::kF32, {}, one)})), "");
  EXPECT_THAT(
      error_of(writer->add("b", std::vector{field_of("x", ElementType::kI32, {}, one)})),
      HasSubstr("sample 'b': its field 0 is 'x' [] of int32, but in the first one 'x' [] of "
                "float32"));
  EXPECT_THAT(error_of(open_format("parquet", {.parquet = {.compression = "lz4"}})
                           .operator*()
                           ->create(engine, "y")),
              HasSubstr("unknown compression 'lz4'"));
}

TEST(ParquetSamples, AFileThatChangedIsNoticed) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  ASSERT_EQ(error_of(write(*engine, Written(50), 50, {})), "");
  const auto samples = open_rows({"x.parquet"}, {}, engine);
  ASSERT_EQ(error_of(samples), "");
  ASSERT_EQ(error_of(write(*engine, Written(60), 60, {})), "");
  Row row;
  EXPECT_THAT(error_of(row.read(*samples, 0)), HasSubstr("open it again"));
}

TEST(ParquetCache, ASmallCacheServesAllRows) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  const Written rows(500);
  ASSERT_EQ(error_of(write(*engine, rows, 500, {.row_group_rows = 50})), "");
  ParquetSourceOptions options;
  options.columns = {"x"};
  options.cache_bytes = 1;
  options.footer_cache_bytes = 1;
  const auto source = ParquetSource::open(engine, {"x.parquet"}, options);
  ASSERT_EQ(error_of(source), "");
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint64_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      data::Buffer room;
      for (uint64_t i = 0; i < 500; ++i) {
        const SampleId sample{(i * 7 + first * 100) % 500};
        (*source)->prepare(std::vector{SampleId{(i * 91) % 500}});
        const auto bytes = (*source)->read(sample, room);
        SampleFields fields;
        if (!bytes.ok() || !split_packed(*bytes, fields).ok() ||
            number<float>(*fields.find("x")) != rows.x[data::index_of(sample)]) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace millrace::format::parquet_rows
