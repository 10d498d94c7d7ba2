#include "trace/all/session_names.h"

namespace millrace::trace {
namespace {

// The table takes a plain function as its filter, because preload code uses it too.
Settings filter_settings;

bool is_left_out(std::string_view name) {
  return (name.starts_with('/') || name.starts_with('<')) && is_filtered(filter_settings, name);
}

}  // namespace

SessionNames::SessionNames(const Settings& settings)
    : directory_(settings.session), has_include_(settings.include[0] != '\0') {
  filter_settings = settings;
}

Result<SessionNames> SessionNames::open(const Settings& settings) {
  SessionNames names(settings);
  int error = 0;
  if (!names.table_->open(settings.session, &is_left_out, &error)) {
    return fail_os(error, "cannot open the table of names").within(settings.session);
  }
  return names;
}

bool SessionNames::ignored(wire::NameId id) {
  if (id == wire::kNoName) return false;
  if (table_->filtered(id)) return true;
  const std::string_view name = table_->text(id);
  return name.size() > directory_.size() && name.starts_with(directory_) &&
         name[directory_.size()] == '/';
}

}  // namespace millrace::trace
