// Files that are an image: of encoded strips (jpeg), of stored pixels (png of random pixels), or
// encoded as a whole.
#include <fcntl.h>

#include <cstring>

#include "base/io/file.h"
#include "bench/generate/file_job.h"
#include "bench/generate/images/image_seal.h"
#include "bench/generate/images/stored_png.h"
#include "format/images/png.h"

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

// The room for an image and its seal. Both are in the same buffer, so that one write is enough.
MutableByteView image_room(const FileJob& job, size_t image_bytes) {
  return job.rooms.record.room(kSealRoomBytes + image_bytes);
}

// These return the room: kSealRoomBytes, then the image.

Result<MutableByteView> make_jpeg(const FileJob& job, const ContentArray& record,
                                  const ImageShape& shape) {
  constexpr uint32_t kSideMax = JpegStrips::kSideMax;
  const image::Size size = shape.size;
  if (size.width == 0 || size.height == 0 || size.width > kSideMax || size.height > kSideMax) {
    return fail(Errc::kInvalidArgument, "a JPEG is 1 to {} pixels wide and high, not {} x {}",
                kSideMax, size.width, size.height);
  }
  const JpegStrips& strips = *job.plan.jpeg_strips;
  const MutableByteView room = image_room(job, strips.room_bytes(size));
  const size_t image_bytes =
      strips.write(job.plan.content.key_of(record), size, room.subspan(kSealRoomBytes));
  return room.first(kSealRoomBytes + image_bytes);
}

Result<MutableByteView> make_png(const FileJob& job, const ContentArray& record,
                                 const ImageShape& shape) {
  constexpr uint32_t kSideMax = 0x7fffffff;
  const image::Size size = shape.size;
  if (size.width == 0 || size.height == 0 || size.width > kSideMax || size.height > kSideMax) {
    return fail(Errc::kInvalidArgument, "a PNG is 1 to {} pixels wide and high, not {} x {}",
                kSideMax, size.width, size.height);
  }
  const MutableByteView pixels = job.rooms.block.room(static_cast<size_t>(record.size_bytes()));
  job.plan.content.fill(record, 0, pixels);
  if (job.plan.dataset().content == ContentKind::kRandom) {
    const MutableByteView room = image_room(job, stored_png_bytes(size, shape.is_gray));
    write_stored_png({.size = size, .is_gray = shape.is_gray, .bytes = pixels},
                     room.subspan(kSealRoomBytes));
    return room;
  }
  const image::ImageView view{.pixels = reinterpret_cast<const uint8_t*>(pixels.data()),
                              .size = size,
                              .stride_bytes = pixels.size() / size.height};
  ASSIGN_OR_RETURN(const std::vector<std::byte> image,
                   format::write_png(view, {.is_gray = shape.is_gray}));
  const MutableByteView room = image_room(job, image.size());
  std::memcpy(room.data() + kSealRoomBytes, image.data(), image.size());
  return room;
}

}  // namespace

Status prepare_images(DatasetPlan& plan) {
  RETURN_IF_ERROR(check_image_config(plan.dataset()));
  if (plan.dataset().format != DatasetFormat::kJpeg || plan.layout.file_count() == 0) return {};
  ASSIGN_OR_RETURN(const ImageShape shape, image_shape(plan.layout.record_shape({})));
  ASSIGN_OR_RETURN(plan.jpeg_strips, JpegStrips::encode(plan.content, shape.is_gray, kQuality));
  return {};
}

std::string image_identity(const DatasetConfig& dataset, FileId file) {
  return fmt::format("seed {} {} {}", dataset.seed, split_name(file.split), file.index);
}

Status write_image_file(const FileJob& job) {
  const ContentArray record = record_of(job.plan.layout, {.file = job.file});
  ASSIGN_OR_RETURN(const ImageShape shape, image_shape(record.shape));
  ASSIGN_OR_RETURN(const MutableByteView room, job.plan.dataset().format == DatasetFormat::kJpeg
                                                   ? make_jpeg(job, record, shape)
                                                   : make_png(job, record, shape));
  ASSIGN_OR_RETURN(const ByteView sealed,
                   seal_image(room, image_identity(job.plan.dataset(), job.file)));
  ASSIGN_OR_RETURN(File file, File::open(job.path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  RETURN_IF_ERROR(file.write_at(0, sealed));
  if (job.written) job.written(sealed.size());
  return file.close();
}

}  // namespace millrace::bench
