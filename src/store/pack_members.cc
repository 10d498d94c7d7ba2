#include "store/member_source.h"

namespace millrace::store {
namespace {

class PackMembers final : public MemberSource {
 public:
  PackMembers(const PackReader& reader, ReadAhead* ahead) : reader_(reader), ahead_(ahead) {}

  bool has(uint32_t index) const override {
    return reader_.check_partition_file(reader_.catalogue().entry(index).partition).ok();
  }

  Status read(uint32_t index, BlockCodec& codec,
              const std::function<Status(ByteView block)>& each) override {
    if (ahead_ != nullptr) ahead_->note(reader_.catalogue().entry(index).partition);
    return reader_.read_blocks(index, codec, each);
  }

 private:
  const PackReader& reader_;
  ReadAhead* const ahead_;
};

}  // namespace

std::unique_ptr<MemberSource> make_pack_members(const PackReader& reader, ReadAhead* ahead) {
  return std::make_unique<PackMembers>(reader, ahead);
}

}  // namespace millrace::store
