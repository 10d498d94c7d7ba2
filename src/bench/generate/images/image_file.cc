// Files that are an image. An encoder takes ten times as long as writing its file, so a dataset has
// a few images, which are encoded once and repeated; the comment in each file (image_seal.h) says
// which sample it is. If images have different sizes, each is encoded by itself.
#include <fcntl.h>

#include <algorithm>

#include "base/hash/crc32c.h"
#include "base/io/file.h"
#include "bench/generate/file_job.h"
#include "bench/generate/images/image_seal.h"
#include "format/images/jpeg.h"
#include "format/images/png.h"

namespace millrace::bench {
namespace {

constexpr int kQuality = 75;  // Pillow's default, which DLIO uses
constexpr uint64_t kImagesMax = 8;
constexpr uint64_t kPixelBytesMax = 4 << 20;  // of all images: a PNG encoder makes 26 MB/s

struct ImageShape {
  image::Size size;
  bool is_gray = true;
};

Result<ImageShape> image_shape(const data::Shape& shape) {
  const auto lengths = shape.lengths();
  const uint64_t channels = lengths.size() == 3 ? lengths[2] : 1;
  const bool fits = (lengths.size() == 2 || lengths.size() == 3) &&
                    (channels == 1 || channels == image::kChannels);
  if (!fits || lengths[0] > 0xffffffff || lengths[1] > 0xffffffff) {
    return fail(Errc::kInvalidArgument,
                "an image cannot have the shape {}; dataset.record_dims must be [height, width] or "
                "[height, width, 3]",
                shape.text());
  }
  return ImageShape{.size = {.width = static_cast<uint32_t>(lengths[1]),
                             .height = static_cast<uint32_t>(lengths[0])},
                    .is_gray = channels == 1};
}

Status check_image_config(const DatasetConfig& dataset) {
  if (dataset.num_samples_per_file != 1) {
    return fail(Errc::kInvalidArgument,
                "dataset.num_samples_per_file is {}, but a {} file is one sample; set it to 1",
                dataset.num_samples_per_file, name_of(dataset.format));
  }
  if (!dataset.fields.empty()) {
    return fail(Errc::kInvalidArgument,
                "a {} file has no room for the arrays of dataset.fields; use tar, npz or hdf5",
                name_of(dataset.format));
  }
  return {};
}

Result<EncodedImage> encode_image(const DatasetPlan& plan, FileId file) {
  const ContentArray record = record_of(plan.layout, {.file = file});
  ASSIGN_OR_RETURN(const ImageShape shape, image_shape(record.shape));
  std::vector<std::byte> pixels(static_cast<size_t>(record.size_bytes()));
  plan.content.fill(record, 0, pixels);
  const image::ImageView view{
      .pixels = reinterpret_cast<const uint8_t*>(pixels.data()),
      .size = shape.size,
      .stride_bytes = size_t{shape.size.width} * (shape.is_gray ? 1 : image::kChannels)};
  EncodedImage image;
  if (plan.dataset().format == DatasetFormat::kPng) {
    ASSIGN_OR_RETURN(image.bytes, format::write_png(view, {.is_gray = shape.is_gray}));
  } else {
    ASSIGN_OR_RETURN(image.bytes,
                     format::write_jpeg(view, {.quality = kQuality, .is_gray = shape.is_gray}));
  }
  image.checksum = crc32c(image.bytes);
  return image;
}

}  // namespace

Status prepare_images(DatasetPlan& plan) {
  RETURN_IF_ERROR(check_image_config(plan.dataset()));
  if (plan.layout.file_count() == 0 || !plan.layout.has_equal_files()) return {};
  const uint64_t record_bytes = std::max<uint64_t>(plan.layout.record_bytes({}), 1);
  const uint64_t count = std::min(
      std::clamp<uint64_t>(kPixelBytesMax / record_bytes, 2, kImagesMax), plan.layout.file_count());
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(plan.images.emplace_back(), encode_image(plan, plan.layout.file_at(i)));
  }
  return {};
}

std::string image_identity(const DatasetConfig& dataset, FileId file) {
  return fmt::format("seed {} {} {}", dataset.seed, split_name(file.split), file.index);
}

Status write_image_file(const FileJob& job) {
  const std::vector<EncodedImage>& images = job.plan.images;
  EncodedImage own;
  if (images.empty()) {
    ASSIGN_OR_RETURN(own, encode_image(job.plan, job.file));
  }
  const EncodedImage& image =
      images.empty() ? own : images[static_cast<size_t>(job.file.index % images.size())];
  const DatasetConfig& dataset = job.plan.dataset();
  const size_t place = seal_place(dataset.format);
  const ByteView bytes = image.bytes;
  std::string head(text_of(bytes.first(place)));
  head += image_seal(dataset.format, image_identity(dataset, job.file), image.checksum);
  ASSIGN_OR_RETURN(File file, File::open(job.path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  RETURN_IF_ERROR(file.write_at(0, bytes_of(head)));
  RETURN_IF_ERROR(file.write_at(head.size(), bytes.subspan(place)));
  if (job.written) job.written(head.size() + bytes.size() - place);
  return file.close();
}

}  // namespace millrace::bench
