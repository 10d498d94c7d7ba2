#include "format/records/tar.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text/text.h"
#include "format/appender.h"
#include "format/formats.h"
#include "format/window.h"

namespace millrace::format {
namespace {

constexpr size_t kBlockBytes = 512;
constexpr uint64_t kOctalSizeMax = (uint64_t{1} << 33) - 1;  // 11 octal digits
// WebDataset's field for the class, in decimal digits.
constexpr std::string_view kLabelField = "cls";
constexpr uint64_t kLabelBytesMax = 32;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::optional<int32_t> label_of(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  int32_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size() || label < 0) return std::nullopt;
  return label;
}

// Groups consecutive members with the same key into samples.
class Grouping {
 public:
  Status add(const TarMember& member, const MemberName& name, std::optional<int32_t> label) {
    if (samples_.names.empty() || samples_.names.back() != name.key) {
      samples_.names.emplace_back(name.key);
      samples_.spans.push_back({.offset_bytes = member.begin_bytes});
      samples_.labels.push_back(-1);
      fields_.clear();
    }
    const std::string field = lower_case(name.field);
    if (std::find(fields_.begin(), fields_.end(), field) != fields_.end()) {
      return fail(Errc::kCorrupt, "sample '{}' has two members '.{}', the second at byte {}",
                  printable(name.key), printable(field), member.begin_bytes);
    }
    fields_.push_back(field);
    data::Span& span = samples_.spans.back();
    span.size_bytes = member.end_bytes - span.offset_bytes;
    if (label) {
      samples_.labels.back() = *label;
      has_labels_ = true;
    }
    return {};
  }

  data::FileSamples finish() && {
    if (!has_labels_) samples_.labels.clear();
    return std::move(samples_);
  }

 private:
  data::FileSamples samples_{.kind = data::FileSamples::Kind::kListed};
  std::vector<std::string> fields_;  // of the current sample
  bool has_labels_ = false;
};

Result<data::FileSamples> index_archive(const io::Reader& reader) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, reader.size_bytes());
  Window window(reader, file_bytes);
  TarWalk walk([&](uint64_t offset, size_t size) { return window.at(offset, size); }, file_bytes);
  Grouping grouping;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<TarMember> member, walk.next());
    if (!member) break;
    const auto name = member->is_file ? split_member_name(member->path) : std::nullopt;
    if (!name) continue;
    std::optional<int32_t> label;
    if (name->field == kLabelField && member->size_bytes <= kLabelBytesMax) {
      ASSIGN_OR_RETURN(const ByteView text,
                       window.at(member->data_bytes, static_cast<size_t>(member->size_bytes)));
      label = label_of(text_of(text));
    }
    RETURN_IF_ERROR(grouping.add(*member, *name, label));
  }
  // An archive that was truncated between two members would otherwise look like a smaller one, and
  // samples would be lost silently.
  if (!walk.has_end_mark()) {
    return fail(Errc::kCorrupt,
                "the archive ends at byte {} without the empty blocks that end a tar: it was "
                "truncated, or its writer was not closed. Copy or create it again",
                file_bytes);
  }
  data::FileSamples samples = std::move(grouping).finish();
  samples.stamp.size_bytes = file_bytes;
  return samples;
}

void put_octal(std::string& block, size_t offset, size_t digits, uint64_t value) {
  for (size_t i = digits; i > 0; --i, value >>= 3) {
    block[offset + i - 1] = static_cast<char>('0' + (value & 7));
  }
}

// REQUIRES: the name has at most 100 bytes, the size 11 octal digits.
std::string header_block(std::string_view name, uint64_t size_bytes, char kind) {
  std::string block(kBlockBytes, '\0');
  block.replace(0, name.size(), name);
  put_octal(block, 100, 7, 0644);
  put_octal(block, 108, 7, 0);
  put_octal(block, 116, 7, 0);
  put_octal(block, 124, 11, size_bytes);
  put_octal(block, 136, 11, 0);  // no time, so that equal samples give equal archives
  block[156] = kind;
  block.replace(257, 8, std::string_view("ustar\00000", 8));
  block.replace(148, 8, "        ");
  uint64_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put_octal(block, 148, 6, sum);
  block[154] = '\0';
  return block;
}

std::string pax_record(std::string_view key, std::string_view value) {
  // The length includes its own digits.
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (rest + std::to_string(length).size() != length) {
    length = rest + std::to_string(length).size();
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

class TarWriter final : public SampleWriter {
 public:
  explicit TarWriter(std::unique_ptr<io::Writer> writer) : out_(std::move(writer)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    const std::string path = fmt::format("{}.x", key);
    const auto name = split_member_name(path);
    if (!name || name->key != key || fields.empty()) {
      return fail(
          Errc::kInvalidArgument,
          "'{}' cannot be a sample of a tar: it needs a name without a dot after the last slash, "
          "and at least one field",
          printable(key));
    }
    if (key == last_key_) {
      return fail(Errc::kInvalidArgument, "two samples in a row are named '{}'", printable(key));
    }
    last_key_ = key;
    for (const Field& field : fields) RETURN_IF_ERROR(add_member(key, field));
    return {};
  }

  Status finish() override {
    RETURN_IF_ERROR(out_.pad(2 * kBlockBytes));
    return out_.close();
  }

 private:
  Status add_member(std::string_view key, const Field& field) {
    const std::string path = fmt::format("{}.{}", key, field.name);
    const uint64_t size = field.array.bytes.size();
    std::string records;
    if (path.size() > 100) records += pax_record("path", path);
    if (size > kOctalSizeMax) records += pax_record("size", std::to_string(size));
    if (!records.empty()) {
      RETURN_IF_ERROR(out_.append(header_block("pax", records.size(), 'x')));
      RETURN_IF_ERROR(append_padded(bytes_of(records)));
    }
    RETURN_IF_ERROR(out_.append(
        header_block(path.substr(0, 100), std::min<uint64_t>(size, kOctalSizeMax), '0')));
    return append_padded(field.array.bytes);
  }

  Status append_padded(ByteView bytes) {
    RETURN_IF_ERROR(out_.append(bytes));
    return out_.pad((kBlockBytes - bytes.size() % kBlockBytes) % kBlockBytes);
  }

  Appender out_;
  std::string last_key_;
};

class Tar final : public Format {
 public:
  std::string_view name() const override { return "tar"; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const auto reader, engine.open(path));
    return index_archive(*reader);
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    const auto fetch = [&](uint64_t offset, size_t size) -> Result<ByteView> {
      if (offset > sample.size() || size > sample.size() - offset) {
        return fail(Errc::kCorrupt, "a tar header is truncated at byte {} of the sample", offset);
      }
      return sample.subspan(static_cast<size_t>(offset), size);
    };
    TarWalk walk(fetch, sample.size());
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<TarMember> member, walk.next());
      if (!member) return {};
      const auto name = member->is_file ? split_member_name(member->path) : std::nullopt;
      if (!name) continue;
      fields.add(bytes_field(fields.keep(lower_case(name->field)),
                             sample.subspan(static_cast<size_t>(member->data_bytes),
                                            static_cast<size_t>(member->size_bytes))));
    }
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    return std::unique_ptr<SampleWriter>(new TarWriter(std::move(writer)));
  }
};

}  // namespace

std::unique_ptr<Format> make_tar(const FormatOptions& options) {
  static_cast<void>(options);
  return std::make_unique<Tar>();
}

}  // namespace millrace::format
