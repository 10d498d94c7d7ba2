// Files that are an encoded image.
#include <fcntl.h>

#include "base/file.h"
#include "bench/file_job.h"
#include "bench/image_seal.h"
#include "format/jpeg.h"
#include "format/png.h"

namespace millrace::bench {
namespace {

constexpr int kQuality = 75;  // Pillow's default, which DLIO uses

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

Result<std::vector<std::byte>> encode(const FileJob& job, ByteView pixels,
                                      const ImageShape& shape) {
  const size_t row_bytes = size_t{shape.size.width} * (shape.is_gray ? 1 : image::kChannels);
  const image::ImageView view{.pixels = reinterpret_cast<const uint8_t*>(pixels.data()),
                              .size = shape.size,
                              .stride_bytes = row_bytes};
  if (job.plan.dataset().format == "png") {
    return format::write_png(view, {.is_gray = shape.is_gray});
  }
  return format::write_jpeg(view, {.quality = kQuality, .is_gray = shape.is_gray});
}

}  // namespace

bool is_image(const DatasetConfig& dataset) {
  return dataset.format == "jpeg" || dataset.format == "png";
}

Status check_image_config(const Workload& workload) {
  const DatasetConfig& dataset = workload.dataset;
  if (dataset.num_samples_per_file != 1) {
    return fail(Errc::kInvalidArgument,
                "dataset.num_samples_per_file is {}, but a {} file is one sample; set it to 1",
                dataset.num_samples_per_file, dataset.format);
  }
  if (!dataset.fields.empty()) {
    return fail(Errc::kInvalidArgument,
                "a {} file has no room for the arrays of dataset.fields; use tar, npz or hdf5",
                dataset.format);
  }
  return {};
}

std::string image_identity(const DatasetConfig& dataset, FileId file) {
  return fmt::format("seed {} {} {}", dataset.seed, split_name(file.split), file.index);
}

Status write_image_file(const FileJob& job) {
  const ContentArray record = record_of(job.plan.layout, {.file = job.file});
  ASSIGN_OR_RETURN(const ImageShape shape, image_shape(record.shape));
  const MutableByteView pixels = job.rooms.record.room(static_cast<size_t>(record.size_bytes()));
  job.plan.content.fill(record, 0, pixels);
  ASSIGN_OR_RETURN(const std::vector<std::byte> image, encode(job, pixels, shape));
  ASSIGN_OR_RETURN(const std::vector<std::byte> sealed,
                   seal_image(image, image_identity(job.plan.dataset(), job.file)));
  ASSIGN_OR_RETURN(File file, File::open(job.path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  RETURN_IF_ERROR(file.write_at(0, sealed));
  if (job.written) job.written(sealed.size());
  return file.close();
}

}  // namespace millrace::bench
