#include "bench/checkpoint/shard_bytes.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/io/gzip.h"
#include "format/records/zip.h"

namespace millrace::bench {
namespace {

std::string describe_tensor(const PlannedTensor& tensor) {
  if (tensor.group.empty()) return fmt::format("tensor '{}'", tensor.name);
  return fmt::format("tensor '{}'['{}']", tensor.group, tensor.name);
}

}  // namespace

ShardBytes::ShardBytes(const PlannedFile& file, std::string_view checkpoint, bool randomizes)
    : checkpoint_(checkpoint), randomizes_(randomizes) {
  switch (file.kind) {
    case PlannedFile::Kind::kTorch:
      add_torch(file);
      break;
    case PlannedFile::Kind::kRaw:
      for (size_t i = 0; i < file.tensors.size(); ++i) {
        add_content(file.tensors[i].size_bytes(), content_of(file, i),
                    describe_tensor(file.tensors[i]));
      }
      break;
    case PlannedFile::Kind::kIndex:
      add_index(file);
      break;
    case PlannedFile::Kind::kGraph:
      add_padded(saver_graph(bundle_tensors(file.shards), file.size_bytes), file, "the graph",
                 "the graph's constant");
      break;
    case PlannedFile::Kind::kState:
      add_text(bundle_state(file.prefix, file.size_bytes), "the text");
      break;
  }
}

CheckpointContent ShardBytes::content_of(const PlannedFile& file, size_t tensor) const {
  return randomizes_ ? CheckpointContent::random(content_seed(checkpoint_, file.name, tensor))
                     : CheckpointContent::ones(file.tensors[tensor].type);
}

void ShardBytes::add_torch(const PlannedFile& file) {
  format::ZipBuilder zip;
  const auto add_member = [&](const std::string& name, const std::string& text) {
    add_text(zip.head(name, text.size(), zip_crc32(bytes_of(text))) + text, name);
  };
  add_member("archive/data.pkl", pickle_state(file.tensors));
  add_member("archive/byteorder", "little");
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const PlannedTensor& tensor = file.tensors[i];
    const CheckpointContent content = content_of(file, i);
    const uint64_t tensor_bytes = tensor.size_bytes();
    const uint32_t crc = content.checksum(ChecksumKind::kZip, tensor_bytes);
    add_text(zip.head(fmt::format("archive/data/{}", i), tensor_bytes, crc),
             "the head of " + describe_tensor(tensor));
    add_content(tensor_bytes, content, describe_tensor(tensor));
  }
  add_member("archive/version", "3\n");
  add_text(zip.tail(), "the zip directory");
}

void ShardBytes::add_index(const PlannedFile& file) {
  const auto checksum = [&](const PlannedFile& shard, size_t i) {
    return content_of(shard, i).checksum(ChecksumKind::kCastagnoli, shard.tensors[i].size_bytes());
  };
  add_padded(
      bundle_index(bundle_tensors(file.shards, checksum), file.shards.size(), file.size_bytes),
      file, "the table", "the padding");
}

void ShardBytes::add_padded(PaddedFile padded, const PlannedFile& file, const std::string& what,
                            const std::string& padding) {
  add_text(std::move(padded.head), what);
  if (padded.padding_bytes > 0) {
    add_content(padded.padding_bytes,
                CheckpointContent::random(content_seed(checkpoint_, file.name, 0)), padding);
  }
  if (!padded.tail.empty()) add_text(std::move(padded.tail), what);
}

void ShardBytes::add_text(std::string text, std::string what) {
  const uint64_t text_bytes = text.size();
  pieces_.push_back({.begin_bytes = size_bytes_,
                     .size_bytes = text_bytes,
                     .text = std::move(text),
                     .content = CheckpointContent::random(0),
                     .what = std::move(what)});
  size_bytes_ += text_bytes;
}

void ShardBytes::add_content(uint64_t size_bytes, CheckpointContent content, std::string what) {
  pieces_.push_back({.begin_bytes = size_bytes_,
                     .size_bytes = size_bytes,
                     .text = {},
                     .content = content,
                     .what = std::move(what)});
  size_bytes_ += size_bytes;
}

const ShardBytes::Piece& ShardBytes::piece_at(uint64_t offset_bytes) const {
  assert(offset_bytes < size_bytes_);
  const auto after = std::ranges::upper_bound(pieces_, offset_bytes, {}, &Piece::begin_bytes);
  return *(after - 1);
}

void ShardBytes::fill(uint64_t offset_bytes, MutableByteView out) const {
  while (!out.empty()) {
    const Piece& piece = piece_at(offset_bytes);
    const uint64_t skipped = offset_bytes - piece.begin_bytes;
    const auto now =
        static_cast<size_t>(std::min<uint64_t>(out.size(), piece.size_bytes - skipped));
    if (piece.text.empty()) {
      piece.content.fill(skipped, out.first(now));
    } else {
      std::memcpy(out.data(), piece.text.data() + skipped, now);
    }
    offset_bytes += now;
    out = out.subspan(now);
  }
}

size_t ShardBytes::find_difference(uint64_t offset_bytes, ByteView found) const {
  for (size_t done = 0; done < found.size();) {
    const Piece& piece = piece_at(offset_bytes + done);
    const uint64_t skipped = offset_bytes + done - piece.begin_bytes;
    const auto now =
        static_cast<size_t>(std::min<uint64_t>(found.size() - done, piece.size_bytes - skipped));
    const ByteView part = found.subspan(done, now);
    size_t same = 0;
    if (piece.text.empty()) {
      same = piece.content.find_difference(skipped, part);
    } else {
      const ByteView text = bytes_of(piece.text).subspan(static_cast<size_t>(skipped), now);
      same = static_cast<size_t>(std::ranges::mismatch(part, text).in1 - part.begin());
    }
    if (same < now) return done + same;
    done += now;
  }
  return found.size();
}

std::byte ShardBytes::at(uint64_t offset_bytes) const {
  std::byte byte{};
  fill(offset_bytes, {&byte, 1});
  return byte;
}

std::string ShardBytes::describe(uint64_t offset_bytes) const {
  if (offset_bytes >= size_bytes_) return "the end of the file";
  return piece_at(offset_bytes).what;
}

}  // namespace millrace::bench
