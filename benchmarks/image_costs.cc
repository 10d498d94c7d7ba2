// Image costs: what it costs to decode a JPEG into a batch, compared with libjpeg-turbo alone.
//
// bench_image_costs DIRECTORY [ROUNDS]: loads every .jpg of the directory into memory and runs the
// contenders in turn. Prints the minimum CPU time of the rounds, in microseconds per image. One
// thread. image_costs.py makes the images, and runs torchvision and Pillow in between.
#include <cstdio>
// jpeglib.h needs FILE.
#include <fmt/core.h>
#include <jpeglib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/system/clock.h"
#include "format/images/image_decoder.h"
#include "format/images/jpeg.h"

namespace millrace {
namespace {

using format::ImageDecoder;
using format::ImageOptions;
using format::ImageTransform;
using image::Layout;
using image::PixelType;
using Samples = std::vector<std::string>;

struct Contender {
  std::string name;
  std::function<void()> run;  // decodes all samples
  double best_us = 1e300;
};

// A program that calls the library directly and reuses its handle.
void decode_by_libjpeg(const Samples& samples, std::vector<uint8_t>& out) {
  jpeg_decompress_struct handle{};
  jpeg_error_mgr errors{};
  handle.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&handle);
  for (const std::string& sample : samples) {
    jpeg_mem_src(&handle, reinterpret_cast<const unsigned char*>(sample.data()), sample.size());
    jpeg_read_header(&handle, TRUE);
    handle.out_color_space = JCS_RGB;
    jpeg_start_decompress(&handle);
    const size_t row_bytes = size_t{handle.output_width} * 3;
    out.resize(std::max(out.size(), row_bytes * handle.output_height));
    while (handle.output_scanline < handle.output_height) {
      JSAMPROW row = out.data() + handle.output_scanline * row_bytes;
      jpeg_read_scanlines(&handle, &row, 1);
    }
    jpeg_finish_decompress(&handle);
  }
  jpeg_destroy_decompress(&handle);
}

void fail_run(const Error& error) {
  fmt::print(stderr, "image_costs: {}\n", error.message());
  std::exit(1);
}

std::function<void()> decoding(const Samples& samples, const ImageOptions& options) {
  auto made = ImageDecoder::create(options);
  if (!made.ok()) fail_run(made.error());
  // Shared by the copies of the std::function.
  const std::shared_ptr<const ImageDecoder> decoder = *std::move(made);
  return [decoder, &samples] {
    static uint64_t epoch = 0;
    const auto scratch = decoder->make_scratch();
    std::vector<std::byte> out(decoder->fields()[0].size_bytes());
    const data::Output outputs[] = {MutableByteView(out)};
    ++epoch;
    for (size_t i = 0; i < samples.size(); ++i) {
      const data::DecodeContext context{data::SampleId{i}, data::Epoch{epoch}, 1};
      const Status status = decoder->decode(bytes_of(samples[i]), context, outputs, scratch.get());
      if (!status.ok()) fail_run(status.error());
    }
  };
}

Samples read_samples(const std::string& directory) {
  Samples samples;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".jpg") continue;
    auto bytes = read_file(entry.path().string());
    if (!bytes.ok()) fail_run(bytes.error());
    samples.push_back(*std::move(bytes));
  }
  return samples;
}

// The common size: whole images in one batch must have the same size.
image::Size size_of(const std::string& sample) {
  auto reader = format::JpegReader::create({});
  if (!reader.ok()) fail_run(reader.error());
  const auto size = (*reader)->open(bytes_of(sample));
  if (!size.ok()) fail_run(size.error());
  return *size;
}

std::vector<Contender> contenders(const Samples& samples, std::vector<uint8_t>& out) {
  const image::PixelFormat normalised{.type = PixelType::kF32,
                                      .mean = {0.485f, 0.456f, 0.406f},
                                      .deviation = {0.229f, 0.224f, 0.225f}};
  const image::Size whole = size_of(samples.front());
  const image::Size square{224, 224};
  return {
      {"libjpeg-turbo", [&] { decode_by_libjpeg(samples, out); }},
      {"decode", decoding(samples, {.size = whole,
                                    .transform = ImageTransform::kNone,
                                    .pixels = {.layout = Layout::kNhwc}})},
      {"decode nchw", decoding(samples, {.size = whole, .transform = ImageTransform::kNone})},
      {"crop", decoding(samples, {.size = square, .flip_probability = 0.5})},
      {"crop f32",
       decoding(samples, {.size = square, .flip_probability = 0.5, .pixels = normalised})},
      {"crop unscaled",
       decoding(samples, {.size = square, .flip_probability = 0.5, .scaled_decode = false})},
      {"centre", decoding(samples, {.size = square, .transform = ImageTransform::kCentreCrop})},
  };
}

int run(const std::string& directory, int rounds) {
  const Samples samples = read_samples(directory);
  if (samples.empty()) fail_run(fail(Errc::kNotFound, "{} has no .jpg", directory));
  std::vector<uint8_t> out;
  auto all = contenders(samples, out);
  for (int round = 0; round < rounds; ++round) {
    for (Contender& contender : all) {
      const auto start = process_cpu_time();
      contender.run();
      const auto spent = static_cast<double>((process_cpu_time() - start).count());
      contender.best_us =
          std::min(contender.best_us, spent / 1000 / static_cast<double>(samples.size()));
    }
  }
  for (const Contender& contender : all) {
    fmt::print("{}\t{:.1f}\n", contender.name, contender.best_us);
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_image_costs DIRECTORY [ROUNDS]\n");
    return 2;
  }
  return millrace::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 5);
}
