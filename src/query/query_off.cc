#include "query/query.h"

namespace millrace::query {

struct Database::State {
  std::vector<std::string> problems;
  Counters counters;
};

Result<Database> Database::open(const trace::Trace&, Options) {
  return fail(
      Errc::kUnsupported,
      "this build has no SQL support; install SQLite 3.38 or newer (libsqlite3-dev) and build again, "
      "or use `millrace report --by` and `millrace export --to csv`");
}

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Status Database::run(std::string_view, RowSink&) { return {}; }
const std::vector<std::string>& Database::problems() const { return state_->problems; }
const Counters& Database::counters() const { return state_->counters; }

}  // namespace millrace::query
