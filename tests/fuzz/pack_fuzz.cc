// Any bytes may be a catalogue or a partition. Both are read twice: unchanged, and with corrected
// checksums, so that changed names, lengths and places are seen.
#include <cstring>
#include <span>
#include <string>

#include "base/hash/crc32c.h"
#include "store/pack/catalogue.h"
#include "store/pack/codec.h"
#include "store/pack/partition.h"
#include "wire/pack_file.h"

namespace {

using namespace millrace;

void seal_catalogue(std::string& bytes) {
  wire::CatalogueHeader header;
  if (bytes.size() < sizeof(header)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.magic = wire::kCatalogueMagic;
  header.version = wire::kCatalogueVersion;
  header.body_crc32c = crc32c(bytes_of(bytes).subspan(sizeof(header)));
  header.crc32c =
      crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(wire::CatalogueHeader, crc32c)));
  std::memcpy(bytes.data(), &header, sizeof(header));
}

void seal_partition(std::string& bytes) {
  wire::PackHeader header;
  wire::PackFooter footer;
  if (bytes.size() < sizeof(header) + sizeof(footer)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  char* const end = bytes.data() + bytes.size() - sizeof(footer);
  std::memcpy(&footer, end, sizeof(footer));
  header.magic = wire::kPackMagic;
  header.version = wire::kPackVersion;
  header.crc32c =
      crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(wire::PackHeader, crc32c)));
  footer.magic = wire::kPackEndMagic;
  footer.identity = header.identity;
  footer.file_bytes = bytes.size();
  if (footer.index_offset <= bytes.size() - sizeof(footer)) {
    footer.index_crc32c = crc32c(bytes_of(bytes).subspan(
        footer.index_offset, bytes.size() - sizeof(footer) - footer.index_offset));
  }
  footer.crc32c =
      crc32c(std::as_bytes(std::span(&footer, 1)).first(offsetof(wire::PackFooter, crc32c)));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(end, &footer, sizeof(footer));
}

// The view of a process that trusts whoever published the catalogue: it must be safe anyway.
void use_view(const std::string& bytes) {
  wire::CatalogueView view;
  if (view.open(bytes.data(), bytes.size()) != nullptr) return;
  for (const char* path : {"", "a", "a/1", "a/link", "b", "a/b/c"}) {
    const uint32_t index = view.find(path);
    if (index == wire::kNoEntry) continue;
    if (index >= view.entry_count()) std::abort();
    const auto children = view.children(view.entry(index));
    if (children.count > view.entry_count() - children.first) std::abort();
    view.link_target(view.entry(index));
  }
}

// What has been checked can be relied on.
void use_catalogue(const std::string& bytes) {
  const auto catalogue = store::Catalogue::of_bytes(bytes);
  if (!catalogue.ok()) return;
  for (uint32_t i = 0; i < catalogue->entry_count(); ++i) {
    if (!store::check_path(catalogue->path(i)).ok()) std::abort();
    const auto entry = catalogue->entry(i);
    if (entry.kind != wire::EntryKind::kFile) continue;
    const uint64_t end = catalogue->partition(entry.partition).file_bytes;
    if (entry.offset_bytes > end || entry.packed_bytes > end - entry.offset_bytes) std::abort();
  }
}

void use_partition(const std::string& bytes) {
  std::vector<store::Member> members;
  const Status checked =
      store::check_partition(bytes_of(bytes), [&](const store::IndexRecord& record) -> Status {
        members.push_back(store::member_of(record, 0));
        return {};
      });
  if (!checked.ok()) return;
  store::BlockCodec codec;
  for (const store::Member& member : members) {
    const auto& entry = member.entry;
    if (entry.kind != wire::EntryKind::kFile) continue;
    const ByteView packed = bytes_of(bytes).subspan(entry.offset_bytes, entry.packed_bytes);
    static_cast<void>(codec.decode_blocks({entry.codec, entry.shuffle}, packed, entry.size_bytes,
                                          [](ByteView) { return Status(); }));
  }
  const auto tree = store::tree_of(std::move(members));
  if (!tree.ok()) return;
  const std::vector<store::PartitionInfo> infos = {{.name = "p", .file_bytes = bytes.size()}};
  const std::string catalogue =
      store::encode_catalogue({.tree = *tree, .partitions = infos, .origin = {}, .identity = 0});
  if (!store::check_catalogue(bytes_of(catalogue)).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  use_view(bytes);
  use_catalogue(bytes);
  use_partition(bytes);
  std::string sealed = bytes;
  seal_catalogue(sealed);
  use_view(sealed);
  use_catalogue(sealed);
  seal_partition(bytes);
  use_partition(bytes);
  return 0;
}
