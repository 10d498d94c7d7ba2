// SessionNames: the session's table of names, and which of them are filtered.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trace/preload/name_table.h"
#include "trace/preload/settings.h"

namespace millrace::trace {

class SessionNames {
 public:
  // `settings` contains the session's directory and the globs. At most one per process at a time.
  static Result<SessionNames> open(const Settings& settings);

  // kNoName if there is no space for it.
  wire::NameId intern(std::string_view name) { return table_->intern(name); }
  std::string_view text(wire::NameId id) { return table_->text(id); }

  // Whether the filters exclude the name, or it is a file of the recording itself.
  bool ignored(wire::NameId id);

  bool has_include() const { return has_include_; }

 private:
  explicit SessionNames(const Settings& settings);

  std::unique_ptr<NameTable> table_ = std::make_unique<NameTable>();
  std::string directory_;
  bool has_include_;
};

}  // namespace millrace::trace
