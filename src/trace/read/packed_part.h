// PackedPart: a packed file as a part of a trace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/read/packed_file.h"
#include "trace/read/part.h"

namespace millrace::trace {

class PackedPart final : public Part {
 public:
  static Result<std::unique_ptr<PackedPart>> open(const std::string& path) {
    ASSIGN_OR_RETURN(ByteSource source, ByteSource::from_file(path));
    ASSIGN_OR_RETURN(PackedFile file, PackedFile::open(std::move(source), path));
    return std::make_unique<PackedPart>(std::move(file));
  }

  explicit PackedPart(PackedFile file) : file_(std::move(file)) {
    for (const PackedBlock& block : file_.event_blocks()) {
      blocks_.push_back({.event_count = block.header.count,
                         .begin_ns = block.header.begin_ns,
                         .end_ns = block.header.end_ns,
                         .process = static_cast<ProcessIndex>(block.header.process)});
    }
  }

  const PackedFile& file() const { return file_; }

  const Tables& tables() const override { return file_.tables(); }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  const std::vector<std::string>& problems() const override { return file_.problems(); }
  int64_t origin_wall_ns() const override { return file_.header().origin_wall_ns; }
  std::vector<std::string> release_names() override { return file_.release_names(); }
  Status read(size_t block, EventColumns& columns) const override {
    return file_.read(block, columns);
  }
  Result<uint32_t> levels(size_t block) const override { return file_.levels(block); }

 private:
  PackedFile file_;
  std::vector<BlockInfo> blocks_;
};

}  // namespace millrace::trace
