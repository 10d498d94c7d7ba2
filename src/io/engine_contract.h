// The contract of Engine as clauses that every implementation is held to, written once.
//
// A check gets an engine and a directory of its own, and returns what was broken. engine_test.cc
// runs them for every engine of this build.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "io/engine.h"

namespace millrace::io {

struct Ground {
  Engine& engine;
  std::filesystem::path directory;

  bool has_real_files() const { return engine.name() != "memory"; }
  std::filesystem::path path(std::string_view name) const { return directory / name; }
};

struct ContractClause {
  std::string_view name;
  bool needs_real_files;  // about the operating system's files, which `memory` has none of
  Status (*check)(Ground& ground);
};

std::span<const ContractClause> contract();         // what succeeds
std::span<const ContractClause> contract_faults();  // what fails, and how

Status expect(bool holds, std::string_view what);

// A byte that tells its place in a file.
std::byte byte_at(uint64_t offset_bytes);

// Makes a file of such bytes.
Status write_pattern(Ground& ground, std::string_view name, uint64_t size_bytes);

// Reads a part of such a file, and holds it against what must be there.
Status check_read(const Reader& reader, uint64_t file_bytes, uint64_t offset_bytes,
                  MutableByteView out);

}  // namespace millrace::io
