// Fields: reads a section of a Document into a struct, key by key, and leaves no key unread.
//
//   Fields fields(document, section, "dataset");
//   RETURN_IF_ERROR(fields.read("format", config.format));            // optional: default stays
//   RETURN_IF_ERROR(fields.require("num_files_train", config.files)); // must be there
//   RETURN_IF_ERROR(fields.finish());                                 // unknown keys
//
// Every error has the file, the line and the full name of the key. finish() compares the keys in
// the file with those that were read, so the code that reads them is the list of known keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/document.h"

namespace millrace {

class Fields {
 public:
  // `section` is a map of `document`, or null, which counts as empty. Both must outlive this.
  // `prefix` is the name of the section, empty for the whole document.
  static Result<Fields> of(const Document& document, const Node& section, std::string prefix = "");

  // Leaves `out` unchanged if the key is absent or has no value.
  Status read(std::string_view key, bool& out);
  Status read(std::string_view key, int64_t& out);
  Status read(std::string_view key, uint64_t& out);
  Status read(std::string_view key, double& out);
  Status read(std::string_view key, std::string& out);
  Status read(std::string_view key, std::vector<std::string>& out);
  Status read(std::string_view key, std::vector<double>& out);
  Status read(std::string_view key, std::vector<uint64_t>& out);

  // "64KiB" or a bare number of bytes; "250us" with its unit.
  Status read_bytes(std::string_view key, uint64_t& out);

  // Reads one of `choices`. The error for any other word lists the choices and suggests the
  // closest.
  Status read_choice(std::string_view key, const std::vector<std::string>& choices,
                     std::string& out);

  template <typename T>
  Status require(std::string_view key, T& out) {
    if (value_of(key) == nullptr) return missing(key);
    return read(key, out);
  }

  // The section under `key`; empty if it is absent.
  Result<Fields> section(std::string_view key);

  bool has(std::string_view key) { return value_of(key) != nullptr; }

  // The value of a key whose form only the caller knows. From then on the key counts as read.
  // nullptr if it is absent or has no value.
  const Node* find(std::string_view key) { return value_of(key); }

  // An error about the value of `key` that only the caller can detect: "dataset.files: message".
  Error complain(std::string_view key, std::string_view message) const;

  // Fails on the first key that was not read.
  Status finish() const;

 private:
  Fields(const Document& document, const Node& section, std::string prefix)
      : document_(&document), section_(&section), prefix_(std::move(prefix)) {}

  // Returns the value of a key and remembers the key as known. Returns nullptr if it is absent or
  // null.
  const Node* value_of(std::string_view key);
  Error missing(std::string_view key) const;
  Error at(const Node& node, std::string_view key, const Error& error) const;
  std::string full_name(std::string_view key) const;

  template <typename T, typename Convert>
  Status read_as(std::string_view key, T& out, Convert convert);

  const Document* document_;
  const Node* section_;
  std::string prefix_;
  std::vector<std::string> known_;
};

}  // namespace millrace
