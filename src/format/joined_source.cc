#include "format/joined_source.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "format/arrays/npy.h"

namespace millrace::format {
namespace {

class JoinedFormat final : public Format {
 public:
  explicit JoinedFormat(std::vector<std::string> names) : names_(std::move(names)) {}

  std::string_view name() const override { return "joined"; }
  bool is_file_a_sample() const override { return true; }
  Result<data::FileSamples> index(io::Engine&, const std::filesystem::path&) const override {
    return fail(Errc::kUnsupported, "joined samples are not files");
  }
  Result<std::unique_ptr<SampleWriter>> create(io::Engine&,
                                               const std::filesystem::path&) const override {
    return fail(Errc::kUnsupported, "joined samples are not files");
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    ByteReader reader(sample);
    for (const std::string& name : names_) {
      ASSIGN_OR_RETURN(const auto size_bytes, reader.read<uint64_t>());
      ASSIGN_OR_RETURN(const ByteView bytes, reader.take(size_bytes));
      if (!text_of(bytes).starts_with("\x93NUMPY")) {
        fields.add(bytes_field(fields.keep(name), bytes));
        continue;
      }
      ASSIGN_OR_RETURN(const data::ArrayView array, parse_npy(bytes).within(name));
      fields.add({.name = fields.keep(name), .array = array});
    }
    if (reader.at_end()) return {};
    return fail(Errc::kCorrupt, "{} bytes follow the last of its {} parts", reader.remaining(),
                names_.size());
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace

Result<std::shared_ptr<JoinedSource>> JoinedSource::make(std::vector<Part> parts) {
  if (parts.empty()) return fail(Errc::kInvalidArgument, "there are no folders to join");
  for (const Part& part : parts) {
    if (part.source->sample_count() != parts[0].source->sample_count()) {
      return fail(Errc::kInvalidArgument, "'{}' has {} samples, but '{}' has {}", part.name,
                  part.source->sample_count(), parts[0].name, parts[0].source->sample_count());
    }
  }
  return std::shared_ptr<JoinedSource>(new JoinedSource(std::move(parts)));
}

Result<ByteView> JoinedSource::read(data::SampleId sample, data::Buffer& room) const {
  // The lengths are known only after reading. Kept by the thread, because this is called for every
  // sample and the interface has no room for more than one buffer.
  thread_local std::vector<data::Buffer> rooms;
  if (rooms.size() < parts_.size()) rooms.resize(parts_.size());
  std::vector<ByteView> all;
  size_t total_bytes = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    ASSIGN_OR_RETURN(const ByteView bytes, parts_[i].source->read(sample, rooms[i]));
    all.push_back(bytes);
    total_bytes += sizeof(uint64_t) + bytes.size();
  }
  const MutableByteView joined = room.room(total_bytes);
  size_t at = 0;
  for (const ByteView bytes : all) {
    const uint64_t size_bytes = bytes.size();
    std::memcpy(joined.data() + at, &size_bytes, sizeof size_bytes);
    at += sizeof size_bytes;
    if (!bytes.empty()) std::memcpy(joined.data() + at, bytes.data(), bytes.size());
    at += bytes.size();
  }
  return ByteView(joined);
}

Result<size_t> JoinedSource::read_into(data::SampleId sample, MutableByteView out) const {
  data::Buffer room;
  ASSIGN_OR_RETURN(const ByteView bytes, read(sample, room));
  if (bytes.size() > out.size()) {
    return fail(Errc::kExhausted, "{}: has {} bytes, but there is room for {}", name(sample),
                bytes.size(), out.size());
  }
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return bytes.size();
}

void JoinedSource::prepare(std::span<const data::SampleId> soon) const {
  for (const Part& part : parts_) part.source->prepare(soon);
}

bool JoinedSource::wants_order() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.source->wants_order(); });
}

void JoinedSource::expect(const data::ComingOrder& order) const {
  for (const Part& part : parts_) part.source->expect(order);
}

void JoinedSource::finished(std::span<const data::SampleId> read) const {
  for (const Part& part : parts_) part.source->finished(read);
}

std::shared_ptr<const Format> JoinedSource::format() const {
  std::vector<std::string> names;
  for (const Part& part : parts_) names.push_back(part.name);
  return std::make_shared<JoinedFormat>(std::move(names));
}

}  // namespace millrace::format
