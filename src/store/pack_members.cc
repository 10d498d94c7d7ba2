#include "store/member_source.h"

namespace millrace::store {
namespace {

class PackMembers final : public MemberSource {
 public:
  explicit PackMembers(const PackReader& reader) : reader_(reader) {}

  bool has(uint32_t index) const override {
    return reader_.check_partition_file(reader_.catalogue().entry(index).partition).ok();
  }

  Status read(uint32_t index, BlockCodec& codec,
              const std::function<Status(ByteView block)>& each) override {
    return reader_.read_blocks(index, codec, each);
  }

 private:
  const PackReader& reader_;
};

}  // namespace

std::unique_ptr<MemberSource> make_pack_members(const PackReader& reader) {
  return std::make_unique<PackMembers>(reader);
}

}  // namespace millrace::store
