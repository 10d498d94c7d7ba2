// Reads files with all kinds of device failures through a whole loader, with reads in flight, and
// checks that all engines of this machine return the same batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/io/temporary_directory.h"
#include "format/file_source.h"
#include "io/testing/memory_engine.h"
#include "loader/loader.h"

namespace millrace::loader {
namespace {

using data::Epoch;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr uint64_t kSamples = 100;
constexpr size_t kSampleBytes = 600;

std::string content(uint64_t sample) {
  std::string bytes(kSampleBytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(sample * 7 + i);
  return bytes;
}

// Samples are used as they are, or copied by a decoder.
class Bytes final : public data::Decoder {
 public:
  explicit Bytes(bool is_verbatim) : is_verbatim_(is_verbatim) {}
  std::vector<data::FieldSpec> fields() const override {
    return {{"bytes", data::ElementType::kU8, {kSampleBytes}}};
  }
  bool is_verbatim() const override { return is_verbatim_; }
  Status decode(ByteView sample, const data::DecodeContext&, std::span<const data::Output> outputs,
                data::Scratch*) const override {
    if (sample.size() != kSampleBytes) return fail(Errc::kCorrupt, "{} bytes", sample.size());
    std::ranges::copy(sample, outputs[0].bytes().begin());
    return {};
  }

 private:
  bool is_verbatim_;
};

enum class Lie { kOneFile, kAFileEach };

void put(io::Engine& engine, const std::filesystem::path& path, std::string_view bytes) {
  const auto writer = *engine.create(path);
  ASSERT_TRUE(writer->write_at(0, bytes_of(bytes)).ok());
  ASSERT_TRUE(writer->close().ok());
}

std::shared_ptr<format::FileSource> make_source(const std::shared_ptr<io::Engine>& engine, Lie lie,
                                                const std::filesystem::path& directory) {
  format::FilesOptions options{.format = "raw", .engine = engine};
  std::string all;
  for (uint64_t i = 0; i < kSamples; ++i) {
    all += content(i);
    if (lie != Lie::kAFileEach) continue;
    options.paths.push_back(directory / fmt::format("{:03}.bin", i));
    put(*engine, options.paths.back(), content(i));
  }
  if (lie == Lie::kOneFile) {
    options.format_options.record_bytes = kSampleBytes;
    options.paths = {directory / "all.bin"};
    put(*engine, options.paths[0], all);
  }
  auto source = format::open_files(options);
  EXPECT_TRUE(source.ok()) << source.error().message();
  return *std::move(source);
}

LoaderOptions in_order(std::shared_ptr<const data::SampleSource> source, bool is_verbatim) {
  LoaderOptions options;
  options.source = std::move(source);
  options.decoder = std::make_shared<Bytes>(is_verbatim);
  options.shuffle = Shuffle::kOff;
  options.batch_size = 10;
  options.thread_count = 2;
  return options;
}

// The batches one by one, and the errors of those that failed.
struct Outcome {
  uint64_t right_rows = 0;
  std::vector<std::string> errors;
};

Outcome read_epoch(const LoaderOptions& options) {
  auto loader = Loader::open(options);
  EXPECT_TRUE(loader.ok()) << loader.error().message();
  EXPECT_TRUE((*loader)->start_epoch(Epoch{0}).ok());
  Outcome outcome;
  while (true) {
    const auto batch = (*loader)->next();
    if (!batch.ok()) {
      outcome.errors.push_back(batch.error().message());
      continue;
    }
    if (!*batch) return outcome;
    for (uint64_t row = 0; row < (*batch)->row_count; ++row) {
      const std::string_view bytes = text_of((*batch)->fields[0].bytes);
      const uint64_t sample = data::index_of((*batch)->samples[row]);
      if (bytes.substr(row * kSampleBytes, kSampleBytes) == content(sample)) ++outcome.right_rows;
    }
  }
}

class FaultyFiles : public testing::TestWithParam<std::tuple<Lie, bool>> {
 protected:
  std::shared_ptr<io::MemoryEngine> engine_ = std::make_shared<io::MemoryEngine>();
  std::shared_ptr<format::FileSource> source_ = make_source(engine_, std::get<0>(GetParam()), "d");
  LoaderOptions options_ = in_order(source_, std::get<1>(GetParam()));
  bool is_one_file() const { return std::get<0>(GetParam()) == Lie::kOneFile; }
};

TEST_P(FaultyFiles, ShortInterruptedAndSlowReadsReturnEverySample) {
  engine_->set_faults(
      {.transfer_bytes_max = 100, .interrupt_every = 3, .delay = std::chrono::microseconds(10)});
  const Outcome outcome = read_epoch(options_);
  EXPECT_EQ(outcome.right_rows, kSamples);
  EXPECT_TRUE(outcome.errors.empty());
  EXPECT_GT(engine_->interrupted_count(), 0u);
}

TEST_P(FaultyFiles, ADeviceErrorIsReportedAtItsBatchAndOtherBatchesAreReturned) {
  engine_->set_faults({.path_contains = is_one_file() ? "all.bin" : "042.bin",
                       .read_error_at = is_one_file() ? 42 * kSampleBytes + 5 : 5});
  // Only the record with this byte fails: a transfer up to the byte is short, and one that begins
  // there fails with EIO.
  const Outcome outcome = read_epoch(options_);
  EXPECT_EQ(outcome.right_rows, kSamples - 10);
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_THAT(outcome.errors[0],
              HasSubstr(is_one_file() ? "d/all.bin: record 42 at byte 25200: " : "d/042.bin: "));
  EXPECT_THAT(outcome.errors[0], HasSubstr("input/output error"));
}

TEST_P(FaultyFiles, ASampleWithADeviceErrorCanBeSkipped) {
  options_.skips_bad_samples = true;
  engine_->set_faults({.path_contains = is_one_file() ? "all.bin" : "042.bin",
                       .read_error_at = is_one_file() ? 42 * kSampleBytes + 5 : 5});
  const Outcome outcome = read_epoch(options_);
  EXPECT_EQ(outcome.right_rows, kSamples - 1);
  EXPECT_TRUE(outcome.errors.empty());
}

TEST_P(FaultyFiles, AStallIsReportedAfterTheDeadlineAndDoesNotDelayClosing) {
  options_.read_deadline = milliseconds(20);
  engine_->set_faults({.stalls = true});
  auto loader = *Loader::open(options_);
  ASSERT_TRUE(loader->start_epoch(Epoch{0}).ok());
  const auto batch = loader->next();
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().code(), Errc::kTimeout);
  EXPECT_THAT(batch.error().message(), HasSubstr(" (read for "));
  EXPECT_THAT(batch.error().message(), HasSubstr(".bin"));
  options_.source.reset();
  loader.reset();  // does not wait for threads that hang
  EXPECT_GT(source_.use_count(), 1);
  engine_->release();
  while (source_.use_count() > 1) std::this_thread::yield();
}

TEST_P(FaultyFiles, AStallThatEndsLosesNothing) {
  engine_->set_faults({.stalls = true});
  std::thread releasing([&] {
    while (engine_->stalled_count() == 0) std::this_thread::yield();
    engine_->release();
  });
  const Outcome outcome = read_epoch(options_);
  releasing.join();
  EXPECT_EQ(outcome.right_rows, kSamples);
}

INSTANTIATE_TEST_SUITE_P(In, FaultyFiles,
                         testing::Combine(testing::Values(Lie::kOneFile, Lie::kAFileEach),
                                          testing::Bool()));

TEST(Engines, AllReturnTheSameBatchesAndReportHowTheyRead) {
  for (const char* name : {"auto", "posix", "mapped", "direct", "uring"}) {
    auto opened = io::open_engine(name);
    if (!opened.ok()) continue;  // this build or this kernel has no io_uring
    const std::shared_ptr<io::Engine> engine = *std::move(opened);
    const auto directory = *TemporaryDirectory::create();
    for (const Lie lie : {Lie::kOneFile, Lie::kAFileEach}) {
      const auto source = make_source(engine, lie, directory.path());
      for (const bool is_verbatim : {false, true}) {
        LoaderOptions options = in_order(source, is_verbatim);
        const Outcome outcome = read_epoch(options);
        EXPECT_EQ(outcome.right_rows, kSamples) << name;
        EXPECT_TRUE(outcome.errors.empty()) << name << ": " << outcome.errors[0];
        const auto loader = *Loader::open(options);
        ASSERT_TRUE(loader->start_epoch(Epoch{0}).ok());
        const io::EngineWays ways = engine->ways();
        const bool flies = !ways.in_flight.empty() && !ways.is_open_choice;
        EXPECT_EQ(loader->stats().reads.engine, flies ? ways.in_flight : ways.one_at_a_time);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::loader
