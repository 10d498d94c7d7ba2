// The contract of Engine, as a list of clauses that every implementation must pass.
//
// A check gets an engine and a directory of its own, and returns the violation as an error.
// engine_test.cc runs the checks for every engine of this build.
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
  bool needs_real_files;  // not for `memory`, which has no files of the operating system
  Status (*check)(Ground& ground);
};

std::span<const ContractClause> contract();         // calls that succeed
std::span<const ContractClause> contract_faults();  // calls that fail, and their errors

Status expect(bool holds, std::string_view what);

// The byte that a test file has at this offset.
std::byte byte_at(uint64_t offset_bytes);

// Creates a file of such bytes.
Status write_pattern(Ground& ground, std::string_view name, uint64_t size_bytes);

// Reads a part of such a file and checks it.
Status check_read(const Reader& reader, uint64_t file_bytes, uint64_t offset_bytes,
                  MutableByteView out);

}  // namespace millrace::io
