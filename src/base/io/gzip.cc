#include "base/io/gzip.h"

// Makes zlib.h declare its inputs as const.
#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/hash/crc32_fold.h"

namespace millrace {
namespace {

constexpr int kGzipWindow = MAX_WBITS + 16;  // the largest window, with a gzip header
constexpr int kMemoryLevel = 9;
constexpr size_t kChunkBytes = 256 * 1024;

// zlib counts in 32 bits.
uInt clamped(size_t size_bytes) {
  return static_cast<uInt>(std::min<size_t>(size_bytes, std::numeric_limits<uInt>::max() / 2));
}

class ZlibWriter : public GzipWriter {
 public:
  ZlibWriter() = default;
  ZlibWriter(const ZlibWriter&) = delete;
  ZlibWriter& operator=(const ZlibWriter&) = delete;
  ~ZlibWriter() override {
    if (ready_) deflateEnd(&stream_);
  }

  Status start(int level, int window = kGzipWindow) {
    if (deflateInit2(&stream_, level, Z_DEFLATED, window, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
      return fail(Errc::kExhausted, "zlib cannot start compressing: not enough memory");
    }
    ready_ = true;
    return {};
  }

  Status append(std::string_view text, std::string& out) override {
    while (!text.empty()) {
      const uInt part = clamped(text.size());
      stream_.next_in = reinterpret_cast<const Bytef*>(text.data());
      stream_.avail_in = part;
      while (stream_.avail_in > 0) RETURN_IF_ERROR(step(Z_NO_FLUSH, out));
      text.remove_prefix(part);
    }
    return {};
  }

  Status finish(std::string& out) override {
    stream_.avail_in = 0;
    while (!ended_) RETURN_IF_ERROR(step(Z_FINISH, out));
    return {};
  }

 private:
  Status step(int flush, std::string& out) {
    const size_t before = out.size();
    out.resize(before + kChunkBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_.avail_out = kChunkBytes;
    const int outcome = deflate(&stream_, flush);
    out.resize(before + kChunkBytes - stream_.avail_out);
    if (outcome == Z_STREAM_END) ended_ = true;
    if (outcome == Z_STREAM_ERROR) return fail(Errc::kIo, "zlib lost its state while compressing");
    return {};
  }

  z_stream stream_ = {};
  bool ready_ = false;
  bool ended_ = false;
};

class ZlibReader : public GzipReader {
 public:
  ZlibReader() = default;
  ZlibReader(const ZlibReader&) = delete;
  ZlibReader& operator=(const ZlibReader&) = delete;
  ~ZlibReader() override {
    if (ready_) inflateEnd(&stream_);
  }

  Status start() {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) {
      return fail(Errc::kExhausted, "zlib cannot start decompressing: not enough memory");
    }
    ready_ = true;
    return {};
  }

  Result<Step> inflate(ByteView input, MutableByteView output) override {
    if (input.empty() && between_) return Step{};
    if (between_) {
      inflateReset(&stream_);
      between_ = false;
    }
    const uInt in_size = clamped(input.size());
    const uInt out_size = clamped(output.size());
    stream_.next_in = reinterpret_cast<const Bytef*>(input.data());
    stream_.avail_in = in_size;
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = out_size;
    const int outcome = ::inflate(&stream_, Z_NO_FLUSH);
    const Step step{.taken = in_size - stream_.avail_in, .made = out_size - stream_.avail_out};
    if (outcome == Z_STREAM_END) {
      between_ = true;
    } else if (outcome != Z_OK && outcome != Z_BUF_ERROR) {
      return fail(Errc::kCorrupt, "not gzip, or damaged ({})",
                  stream_.msg != nullptr ? stream_.msg : "no reason given");
    }
    return step;
  }

  bool between_members() const override { return between_; }

 private:
  z_stream stream_ = {};
  bool ready_ = false;
  bool between_ = true;
};

}  // namespace

Result<std::unique_ptr<GzipWriter>> GzipWriter::create(int level) {
  auto writer = std::make_unique<ZlibWriter>();
  RETURN_IF_ERROR(writer->start(level));
  return std::unique_ptr<GzipWriter>(std::move(writer));
}

Result<std::unique_ptr<GzipWriter>> GzipWriter::create_raw(int level) {
  auto writer = std::make_unique<ZlibWriter>();
  RETURN_IF_ERROR(writer->start(level, -MAX_WBITS));
  return std::unique_ptr<GzipWriter>(std::move(writer));
}

Result<std::unique_ptr<GzipReader>> GzipReader::create() {
  auto reader = std::make_unique<ZlibReader>();
  RETURN_IF_ERROR(reader->start());
  return std::unique_ptr<GzipReader>(std::move(reader));
}

uint32_t zip_crc32(ByteView bytes, uint32_t before) {
  const auto extend = [](uint32_t crc, ByteView more) {
    return static_cast<uint32_t>(
        crc32_z(crc, reinterpret_cast<const Bytef*>(more.data()), more.size()));
  };
  const Crc32Folded folded = crc32_fold(bytes, ~before);
  if (folded.size_bytes > 0) before = extend(~uint32_t{0}, folded.bytes);
  return extend(before, bytes.subspan(folded.size_bytes));
}

}  // namespace millrace
