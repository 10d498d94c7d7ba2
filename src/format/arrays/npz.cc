// npz: NumPy's zip file of named arrays. A sample is a file with several arrays.
//
// Members may be stored or deflated; their checksums are verified. Deflated members need zlib, and
// are an error in a build without it.
#include "base/io/gzip.h"
#include "base/io/inflate.h"
#include "base/text/text.h"
#include "format/appender.h"
#include "format/arrays/npy.h"
#include "format/formats.h"
#include "format/records/zip.h"

namespace millrace::format {
namespace {

constexpr std::string_view kSuffix = ".npy";

Result<data::ArrayView> array_of(const ZipMember& member, SampleFields& fields) {
  ByteView bytes = member.packed;
  if (member.is_deflated) {
    const MutableByteView room = fields.room(static_cast<size_t>(member.size_bytes));
    RETURN_IF_ERROR(inflate_into(member.packed, room));
    bytes = room;
  }
  const uint32_t found = zip_crc32(bytes);
  if (found != member.crc32) {
    return fail(Errc::kCorrupt, "its {} bytes have the checksum {:08x}, expected {:08x}",
                bytes.size(), found, member.crc32);
  }
  return parse_npy(bytes);
}

class NpzWriter final : public SampleWriter {
 public:
  explicit NpzWriter(std::unique_ptr<io::Writer> writer) : out_(std::move(writer)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (++count_ > 1) {
      return fail(Errc::kInvalidArgument, "an npz file is one sample; '{}' needs its own file",
                  printable(key));
    }
    for (const Field& field : fields) {
      if (field.name.empty() || field.name.size() > 60'000) {
        return fail(Errc::kInvalidArgument, "an array of '{}' has a name of {} bytes",
                    printable(key), field.name.size());
      }
      ASSIGN_OR_RETURN(std::string member, npy_header(field.array.type, field.array.shape));
      member += text_of(field.array.bytes);
      RETURN_IF_ERROR(out_.append(zip_.head(fmt::format("{}{}", field.name, kSuffix), member.size(),
                                            zip_crc32(bytes_of(member)))));
      RETURN_IF_ERROR(out_.append(member));
    }
    return {};
  }

  Status finish() override {
    RETURN_IF_ERROR(out_.append(zip_.tail()));
    return out_.close();
  }

 private:
  Appender out_;
  ZipBuilder zip_;
  uint64_t count_ = 0;
};

class Npz final : public Format {
 public:
  std::string_view name() const override { return "npz"; }
  bool is_file_a_sample() const override { return true; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    static_cast<void>(engine), static_cast<void>(path);
    return data::FileSamples{};
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    ASSIGN_OR_RETURN(const std::vector<ZipMember> members, list_zip(sample));
    for (const ZipMember& member : members) {
      if (!member.name.ends_with(kSuffix)) continue;  // not an array
      ASSIGN_OR_RETURN(
          const data::ArrayView array,
          array_of(member, fields).within(fmt::format("array '{}'", printable(member.name))));
      fields.add(
          {.name = member.name.substr(0, member.name.size() - kSuffix.size()), .array = array});
    }
    return {};
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    return std::unique_ptr<SampleWriter>(new NpzWriter(std::move(writer)));
  }
};

}  // namespace

std::unique_ptr<Format> make_npz(const FormatOptions& options) {
  static_cast<void>(options);
  return std::make_unique<Npz>();
}

}  // namespace millrace::format
