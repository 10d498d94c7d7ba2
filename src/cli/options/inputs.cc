#include "cli/options/inputs.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "analyze/profile/profile_read.h"
#include "base/io/file.h"
#include "base/io/input_file.h"
#include "base/system/progress.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/options/part_options.h"
#include "comm/connect.h"
#include "interop/selection.h"

namespace millrace::cli {
namespace {

constexpr size_t kProblemsShown = 20;

Result<size_t> parse_threads(std::string_view text) {
  size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count == 0 || count > 4096) {
    return fail(Errc::kInvalidArgument, "'{}' is not a number of threads (1 to 4096)",
                printable(text));
  }
  return count;
}

Status check_threads(std::string_view text) {
  RETURN_IF_ERROR(parse_threads(text));
  return {};
}

// The options of the user, for this trace.
Result<analyze::Options> options_of(const Arguments& arguments, const trace::Trace& trace) {
  analyze::Options options;
  for (const std::string& rule : arguments.values("role")) {
    ASSIGN_OR_RETURN(auto parsed, analyze::parse_role_rule(rule));
    options.roles.push_back(std::move(parsed));
  }
  if (const auto threads = arguments.value("threads")) {
    ASSIGN_OR_RETURN(options.threads, parse_threads(*threads));
  }
  ASSIGN_OR_RETURN(const interop::Selection selection, part_of(arguments));
  if (!selection.from_ns && !selection.until_ns && selection.ranks.empty()) return options;
  const auto filter = std::make_shared<interop::EventFilter>(trace, selection);
  options.wants_block = [filter](const trace::BlockInfo& block) {
    return filter->wants_block(block);
  };
  options.keep_wanted = [filter](trace::EventColumns& columns) {
    interop::keep_wanted(*filter, columns);
  };
  const uint64_t start = interop::start_of(trace);
  options.window =
      Interval{.begin_ns = start + selection.from_ns.value_or(0),
               .end_ns = selection.until_ns ? start + *selection.until_ns : ~uint64_t{0}};
  return options;
}

// DFTracer's files refer to names in each other, so one rank imports them all.
Result<interop::OpenedJob> open_shared(const interop::JobPaths& job, comm::Comm& comm) {
  if (comm.size() == 1) return interop::open_job(job);
  interop::JobFiles files = interop::files_of(job);
  std::vector<std::string> problems = std::move(files.problems);
  std::optional<TemporaryDirectory> imported;
  Status status;
  std::string packed;
  if (!files.pfw.empty() && comm.rank() == comm::kFirstRank) {
    auto directory = TemporaryDirectory::create();
    if (directory.ok()) {
      imported = *std::move(directory);
      auto path = interop::import_job(files.pfw, imported->path().string(), problems);
      if (path.ok()) {
        packed = *std::move(path);
      } else if (files.traces.empty()) {
        status = std::move(path).error();
      }
    } else {
      status = std::move(directory).error();
    }
  }
  RETURN_IF_ERROR(comm.agree(status));
  RETURN_IF_ERROR(comm.broadcast(packed, comm::kFirstRank));
  if (!packed.empty()) files.traces.push_back(packed);
  auto trace = trace::Trace::open_all(files.traces);
  RETURN_IF_ERROR(comm.agree(trace.ok() ? Status() : Status(trace.error())));
  return interop::OpenedJob{.title = job.title,
                            .trace = *std::move(trace),
                            .problems = std::move(problems),
                            .imported = std::move(imported)};
}

// Merges the scans of all ranks into that of rank 0.
Status gather_scans(analyze::Scan& scan, comm::Comm& comm) {
  const bool first = comm.rank() == comm::kFirstRank;
  const std::vector<std::byte> mine = first ? std::vector<std::byte>() : scan.save();
  ASSIGN_OR_RETURN(const auto all, comm.gather(mine, comm::kFirstRank));
  Status status;
  for (size_t rank = 1; rank < all.size() && status.ok(); ++rank) {
    status = scan.merge(bytes_of(all[rank])).within(fmt::format("what rank {} sent", rank));
  }
  return comm.agree(status);
}

Result<bool> is_saved_profile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  ASSIGN_OR_RETURN(const File file, open_input(path));
  std::byte first[64] = {};
  ASSIGN_OR_RETURN(const size_t length, file.read_at(0, first).within(path));
  for (size_t i = 0; i < length; ++i) {
    const auto c = std::to_integer<char>(first[i]);
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    // DFTracer's lines begin with { as well, but their files are named .pfw.
    return c == '{' && !path.ends_with(".pfw");
  }
  return false;
}

}  // namespace

Status check_role(std::string_view text) {
  RETURN_IF_ERROR(analyze::parse_role_rule(text));
  return {};
}

std::vector<Option> input_options() {
  std::vector<Option> options = part_options();
  options.push_back({.name = "role",
                     .value = "ROLE=NAME",
                     .help = "assign a role to regions, for example compute=fwd_*",
                     .check = check_role,
                     .repeatable = true});
  options.push_back({.name = "threads",
                     .value = "N",
                     .help = "number of reading threads (default: all CPUs)",
                     .check = check_threads});
  return options;
}

Positional traces_positional() {
  return {.name = "TRACE",
          .help = "directories, .mrt files, or .pfw and .pfw.gz files of DFTracer",
          .kind = ValueKind::kFile,
          .repeatable = true};
}

Result<int> with_ranks(const std::function<Result<int>(comm::Comm& comm)>& work) {
  comm::ConnectOptions options;
  options.on_loss = [](const comm::LostRank& loss) {
    if (loss.speaks) fmt::print(stderr, "millrace: {}\n", printable(loss.error.message()));
    _exit(kExitFailure);
  };
  ASSIGN_OR_RETURN(const auto comm, comm::connect(options));
  Result<int> result = work(*comm);
  if (comm->size() == 1) return result;
  const Status status = comm->agree(result.ok() ? Status() : Status(result.error()));
  if (status.ok()) return result;
  if (comm->speaks()) fmt::print(stderr, "millrace: {}\n", printable(status.error().message()));
  return kExitFailure;
}

Result<ProfiledJob> profile_job(const interop::JobPaths& job, const Arguments& arguments,
                                const analyze::Limits& limits, comm::Comm& comm) {
  ASSIGN_OR_RETURN(interop::OpenedJob opened, open_shared(job, comm));
  ProfiledJob profiled;
  profiled.job = std::make_unique<interop::OpenedJob>(std::move(opened));
  const trace::Trace& trace = profiled.job->trace;
  if (trace.blocks().empty() && !trace.problems().empty()) {
    return fail(Errc::kCorrupt, "{}", join(trace.problems(), "; "));
  }
  ASSIGN_OR_RETURN(analyze::Options options, options_of(arguments, trace));
  profiled.scan = std::make_unique<analyze::Scan>(trace, std::move(options), limits);
  {
    Progress progress({.label = "reading", .total = trace.event_count() / comm.size()});
    const analyze::BlockShare share{.index = comm::index_of(comm.rank()), .count = comm.size()};
    profiled.scan->run(share, [&](uint64_t events) { progress.add(events); });
  }
  RETURN_IF_ERROR(gather_scans(*profiled.scan, comm));
  if (comm.rank() != comm::kFirstRank) return profiled;
  profiled.profile = profiled.scan->finish();
  profiled.profile.job.traces = job.paths;
  auto& problems = profiled.profile.problems;
  problems.insert(problems.begin(), profiled.job->problems.begin(), profiled.job->problems.end());
  if (profiled.profile.job.events == 0 && trace.event_count() > 0 && !problems.empty() &&
      !profiled.scan->context().trace.blocks().empty() && !arguments.has("ranks") &&
      !arguments.has("from") && !arguments.has("until")) {
    return fail(Errc::kCorrupt, "{}", join(problems, "; "));
  }
  return profiled;
}

Result<analyze::Profile> profile_at(const std::string& path, const Arguments& arguments,
                                    comm::Comm& comm, const analyze::Limits& limits) {
  ASSIGN_OR_RETURN(const bool saved, is_saved_profile(path));
  if (saved) return analyze::read_profile(path);
  ASSIGN_OR_RETURN(ProfiledJob profiled,
                   profile_job({.title = path, .paths = {path}}, arguments, limits, comm));
  return std::move(profiled.profile);
}

void warn_of(const std::vector<std::string>& problems) {
  for (size_t i = 0; i < problems.size() && i < kProblemsShown; ++i) {
    fmt::print(stderr, "millrace: warning: {}\n", printable(problems[i]));
  }
  if (problems.size() > kProblemsShown) {
    fmt::print(stderr, "millrace: warning: and {} more problems\n",
               problems.size() - kProblemsShown);
  }
}

}  // namespace millrace::cli
