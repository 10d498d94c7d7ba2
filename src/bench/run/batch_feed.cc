#include "bench/run/batch_feed.h"

#include "loader/loader.h"

namespace millrace::bench {
namespace {

class NativeFeed final : public BatchFeed {
 public:
  explicit NativeFeed(std::unique_ptr<loader::Loader> loader) : loader_(std::move(loader)) {}

  Status start_epoch(data::Epoch epoch) override { return loader_->start_epoch(epoch); }

  Result<uint64_t> next() override {
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<data::Batch> batch, loader_->next());
      if (!batch) return uint64_t{0};
      if (batch->row_count > 0) return batch->row_count;
    }
  }

  uint64_t bad_samples() const override { return loader_->stats().bad_samples; }
  std::string first_bad_sample() const override { return loader_->stats().first_bad_sample; }

 private:
  std::unique_ptr<loader::Loader> loader_;
};

class NullFeed final : public BatchFeed {
 public:
  NullFeed(uint64_t sample_count, uint64_t batch_size, loader::order::World world)
      : share_({.sample_count = sample_count, .world = world, .batch_size = batch_size}) {}

  Status start_epoch(data::Epoch) override {
    next_ = 0;
    return {};
  }
  Result<uint64_t> next() override {
    return next_ < share_.batch_count() ? share_.batch(next_++).row_count : uint64_t{0};
  }
  uint64_t bad_samples() const override { return 0; }
  std::string first_bad_sample() const override { return {}; }

 private:
  loader::order::Share share_;
  uint64_t next_ = 0;
};

Result<std::unique_ptr<BatchFeed>> open_native(FeedOptions options) {
  loader::LoaderOptions loading;
  loading.source = std::move(options.source);
  loading.decoder = std::move(options.decoder);
  loading.shuffle = shuffle_of(options.reader);
  loading.seed = options.seed;
  loading.world = options.world;
  loading.batch_size = options.batch_size;
  loading.epoch_count = options.epoch_count;
  loading.thread_count = static_cast<uint32_t>(options.reader.read_threads);
  loading.prefetch_batches = static_cast<uint32_t>(
      options.reader.prefetch_size * std::max<uint64_t>(options.reader.read_threads, 1));
  loading.skips_bad_samples = options.reader.skips_bad_samples();
  loading.marks_waits = false;  // the training loop marks its own
  ASSIGN_OR_RETURN(auto loader, loader::Loader::open(std::move(loading)));
  return std::unique_ptr<BatchFeed>(std::make_unique<NativeFeed>(std::move(loader)));
}

}  // namespace

Result<std::unique_ptr<BatchFeed>> open_feed(FeedOptions options) {
  switch (options.reader.data_loader) {
    case DataLoader::kNative:
      return open_native(std::move(options));
    case DataLoader::kTensorflow:
      return open_stream_feed(std::move(options));
    case DataLoader::kDali:
      options.reader.read_threads = 1;
      break;
    case DataLoader::kPytorch:
      break;
  }
  return open_worker_feed(std::move(options));
}

std::unique_ptr<BatchFeed> null_feed(uint64_t sample_count, uint64_t batch_size,
                                     loader::order::World world) {
  return std::make_unique<NullFeed>(sample_count, batch_size, world);
}

}  // namespace millrace::bench
