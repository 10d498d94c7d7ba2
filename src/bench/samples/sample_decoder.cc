#include "bench/samples/sample_decoder.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/system/clock.h"
#include "base/system/memory.h"
#include "bench/generate/verify.h"
#include "bench/run/accelerator.h"
#include "bench/workload/times.h"
#include "format/images/image_decoder.h"

namespace millrace::bench {
namespace {

// A batch gets this much of each sample if nothing else is said.
constexpr uint64_t kWordBytes = 8;

class BenchScratch final : public data::Scratch {
 public:
  BenchScratch(const TimeModel& time, uint64_t seed) : times(time, seed) {}

  TimeSampler times;
  CheckScratch checked;
  std::unique_ptr<data::Scratch> image;
  std::vector<std::byte> pixels;
};

class BenchDecoder final : public data::Decoder {
 public:
  BenchDecoder(const Workload& workload, SampleDecoderOptions options)
      : workload_(workload), options_(std::move(options)) {
    const uint64_t resize = workload.dataset.record_length_bytes_resize;
    row_.shape = {resize > 0 ? resize : kWordBytes};
  }

  Status prepare() {
    const ReaderConfig& reader = workload_.reader;
    if (!reader.transformed_record_dims.empty()) {
      auto shape = data::Shape::make(reader.transformed_record_dims);
      if (!shape.ok()) return std::move(shape).error().within("reader.transformed_record_dims");
      row_.shape = *shape;
      row_.type = reader.transformed_record_element_type;
    }
    ASSIGN_OR_RETURN(check_, SampleCheck::of(workload_, options_.format, options_.is_ours));
    if (workload_.reader.verify) {
      ASSIGN_OR_RETURN(verifier_, Verifier::of(workload_));
    }
    if (options_.format != nullptr || !workload_.reader.decode) return {};
    ASSIGN_OR_RETURN(image_decoder_, format::ImageDecoder::create({.size = image_size()}));
    return {};
  }

  std::vector<data::FieldSpec> fields() const override { return {row_}; }

  std::unique_ptr<data::Scratch> make_scratch() const override {
    const uint64_t thread = threads_.fetch_add(1);
    auto scratch = std::make_unique<BenchScratch>(workload_.reader.preprocess_time,
                                                  workload_.train.seed + thread);
    if (image_decoder_) {
      scratch->image = image_decoder_->make_scratch();
      scratch->pixels.resize(image_decoder_->fields()[0].size_bytes());
    }
    return scratch;
  }

  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const data::Output> outputs, data::Scratch* scratch) const override {
    auto& mine = *static_cast<BenchScratch*>(scratch);
    const MutableByteView row = outputs[0].bytes();
    const size_t copied = std::min(row.size(), sample.size());
    std::memcpy(row.data(), sample.data(), copied);
    std::memset(row.data() + copied, 0, row.size() - copied);
    if (!row.empty()) row[0] ^= touch(sample.subspan(copied));
    const SampleRef ref = options_.places.of(context.sample);
    RETURN_IF_ERROR(check(sample, ref, mine));
    if (workload_.reader.verify) RETURN_IF_ERROR(verify(sample, ref, mine));
    if (image_decoder_) RETURN_IF_ERROR(decode_image(sample, context, mine));
    preprocess(mine);
    return {};
  }

 private:
  // That of a row [height, width, ...], or the size that models of images use.
  image::Size image_size() const {
    const auto lengths = row_.shape.lengths();
    if (lengths.size() < 2) return {.width = 224, .height = 224};
    return {.width = static_cast<uint32_t>(lengths[1]),
            .height = static_cast<uint32_t>(lengths[0])};
  }

  // One byte of each page.
  static std::byte touch(ByteView bytes) {
    std::byte all{};
    const size_t page = page_bytes();
    for (size_t at = 0; at < bytes.size(); at += page) all ^= bytes[at];
    return all;
  }

  // Also splits the sample into fields.
  Status check(ByteView sample, const SampleRef& ref, BenchScratch& mine) const {
    const auto begin = monotonic_now();
    Status checked = check_->check(ref, sample, mine.checked);
    if (options_.cost == nullptr) return checked;
    const auto took = static_cast<uint64_t>((monotonic_now() - begin).count());
    options_.cost->nanoseconds.fetch_add(took, std::memory_order_relaxed);
    options_.cost->sample_count.fetch_add(1, std::memory_order_relaxed);
    return checked;
  }

  Status verify(ByteView sample, const SampleRef& ref, const BenchScratch& mine) const {
    if (options_.format == nullptr) return verifier_->verify_file(ref.file, sample);
    return verifier_->verify(ref, mine.checked.fields.list());
  }

  Status decode_image(ByteView sample, const data::DecodeContext& context,
                      BenchScratch& mine) const {
    const data::Output output{MutableByteView(mine.pixels)};
    return image_decoder_->decode(sample, context, {&output, 1}, mine.image.get());
  }

  void preprocess(BenchScratch& mine) const {
    const ReaderConfig& reader = workload_.reader;
    if (reader.preprocess_time.is_zero() || reader.decode) return;
    const auto duration = std::chrono::nanoseconds(static_cast<int64_t>(mine.times.next() * 1e9));
    wait_until(monotonic_now(), duration, ComputeMode::kBusy);
  }

  Workload workload_;
  SampleDecoderOptions options_;
  std::optional<SampleCheck> check_;
  std::optional<Verifier> verifier_;
  std::unique_ptr<format::ImageDecoder> image_decoder_;
  data::FieldSpec row_{.name = "data", .type = data::ElementType::kU8};
  mutable std::atomic<uint64_t> threads_ = 0;
};

}  // namespace

Result<std::shared_ptr<const data::Decoder>> make_sample_decoder(const Workload& workload,
                                                                 SampleDecoderOptions options) {
  auto decoder = std::make_shared<BenchDecoder>(workload, std::move(options));
  RETURN_IF_ERROR(decoder->prepare());
  return std::shared_ptr<const data::Decoder>(decoder);
}

}  // namespace millrace::bench
