#include "analyze/profile/profile_read.h"

#include <fmt/core.h>

#include <limits>
#include <optional>
#include <type_traits>

#include "analyze/profile/profile_json.h"
#include "base/io/file.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace millrace::analyze {
namespace {

using Kind = Node::Kind;

// Reads the members of one map. Keeps the first error and skips everything after it, because
// visitors cannot return early.
class FieldReader {
 public:
  FieldReader(const Document& document, const Node& map, std::string prefix,
              std::optional<Error>& error)
      : document_(document), map_(map), prefix_(std::move(prefix)), error_(error) {}

  template <typename T>
  void operator()(const Field& field, T& out) {
    if (error_) return;
    const Node* node = map_.find(field.name);
    if (node == nullptr || (field.optional && node->is_null())) return;
    get(*node, prefix_ + std::string(field.name), out);
  }

 private:
  void get(const Node& node, const std::string& name, bool& out) {
    take(node, name, node.as_bool(), out);
  }
  void get(const Node& node, const std::string& name, int64_t& out) {
    take(node, name, node.as_int(), out);
  }
  void get(const Node& node, const std::string& name, std::string& out) {
    take(node, name, node.as_string(), out);
  }

  // A number that JSON does not have was written as null.
  void get(const Node& node, const std::string& name, double& out) {
    if (!node.is_null()) take(node, name, node.as_double(), out);
  }

  template <typename T>
    requires std::is_unsigned_v<T>
  void get(const Node& node, const std::string& name, T& out) {
    uint64_t value = 0;
    take(node, name, node.as_uint(), value);
    if (!error_ && value > std::numeric_limits<T>::max()) {
      complain(
          node, name,
          fmt::format("{} is more than the maximum of {}", value, std::numeric_limits<T>::max()));
    }
    out = static_cast<T>(value);
  }

  template <typename T>
    requires std::is_enum_v<T>
  void get(const Node& node, const std::string& name, T& out) {
    std::string word;
    take(node, name, node.as_string(), word);
    if (error_) return;
    const auto& names = names_of(T{});
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != word) continue;
      out = static_cast<T>(i);
      return;
    }
    complain(node, name, fmt::format("unknown value '{}'", printable(word)));
  }

  void get(const Node& node, const std::string& name, LogHistogram& out) {
    std::vector<uint64_t> counts;
    get(node, name, counts);
    if (counts.size() > LogHistogram::kBinCount) {
      return complain(node, name,
                      fmt::format("a histogram has at most {} counts, but this one has {}",
                                  LogHistogram::kBinCount, counts.size()));
    }
    for (size_t bin = 0; bin < counts.size(); ++bin) {
      out.add(LogHistogram::least_of(bin), counts[bin]);
    }
  }

  template <typename T>
  void get(const Node& node, const std::string& name, std::vector<T>& out) {
    if (node.kind() != Kind::kList) {
      return complain(node, name, fmt::format("expected a list, found {}", describe(node)));
    }
    out.reserve(node.items().size());
    for (const Node& item : node.items()) {
      if (error_) return;
      // Only items with members get a name of their own. For a number, the line is enough.
      if constexpr (std::is_class_v<T>) {
        const std::string item_name = fmt::format("{}[{}]", name, out.size());
        get(item, item_name, out.emplace_back());
      } else {
        get(item, name, out.emplace_back());
      }
    }
  }

  template <typename T>
    requires std::is_class_v<T>
  void get(const Node& node, const std::string& name, T& out) {
    if (node.kind() != Kind::kMap) {
      return complain(node, name, fmt::format("expected an object, found {}", describe(node)));
    }
    FieldReader members(document_, node, name + ".", error_);
    visit_fields(members, out);
  }

  template <typename T>
  void take(const Node& node, const std::string& name, Result<T> value, T& out) {
    if (value.ok()) {
      out = *std::move(value);
    } else {
      complain(node, name, value.error().message());
    }
  }

  void complain(const Node& node, const std::string& name, const std::string& message) {
    if (error_) return;
    error_ = document_.complain(Errc::kCorrupt, node.line(), fmt::format("{}: {}", name, message));
  }

  const Document& document_;
  const Node& map_;
  std::string prefix_;
  std::optional<Error>& error_;
};

Status check_format(const Document& document) {
  const Node& root = document.root;
  const Node* format = root.find("format");
  if (root.kind() != Kind::kMap || format == nullptr || format->text() != kProfileFormat) {
    return fail(
        Errc::kUnsupported,
        "{}: not a saved profile (\"format\" is not \"{}\"); create one with `millrace report --json`",
        document.name, kProfileFormat);
  }
  const Node* version = root.find("version");
  const Result<uint64_t> number =
      version == nullptr ? Result<uint64_t>(uint64_t{0}) : version->as_uint();
  if (!number.ok() || *number == 0) {
    return document.complain(Errc::kCorrupt, format->line(),
                             "\"version\" is missing or not a positive whole number");
  }
  if (*number != kProfileVersion) {
    return fail(Errc::kUnsupported,
                "{}: profile of version {}; this build reads version {}. Upgrade, or create it "
                "again from the trace",
                document.name, *number, kProfileVersion);
  }
  if (root.find("job") == nullptr) {
    return fail(Errc::kUnsupported, "{}: no \"job\": this is not the report of a single job",
                document.name);
  }
  return {};
}

// Checks indices and lengths that users of a Profile rely on.
Status check_sense(const Profile& profile) {
  const auto corrupt = []<typename... Args>(fmt::format_string<Args...> text, Args&&... args) {
    return fail(Errc::kCorrupt, text, std::forward<Args>(args)...);
  };
  for (size_t i = 0; i < profile.tree.size(); ++i) {
    const size_t parent = profile.tree[i].parent;
    if (i == 0 ? parent != 0 : parent >= i) {
      return corrupt("tree[{}].parent: node {} does not come before it", i, parent);
    }
  }
  const Timeline& line = profile.timeline;
  const size_t bins = line.bytes_read.size();
  if (line.bytes_written.size() != bins || line.operations.size() != bins ||
      line.metadata.size() != bins || line.busy_ns.size() != bins) {
    return corrupt("timeline: the lists differ in length");
  }
  for (const RankActivity& rank : profile.heat.ranks) {
    const size_t heat_bins = profile.heat.ranks.front().io.size();
    if (rank.io.size() != heat_bins || rank.compute.size() != heat_bins ||
        rank.wait.size() != heat_bins) {
      return corrupt("heat.ranks: the lists differ in length");
    }
  }
  const auto check_ranks = [&](std::string_view name, const auto& items) -> Status {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].rank < profile.time.ranks.size()) continue;
      return corrupt("{}[{}].rank: {} is not below the number of ranks, {}", name, i, items[i].rank,
                     profile.time.ranks.size());
    }
    return {};
  };
  RETURN_IF_ERROR(check_ranks("stretches", profile.stretches));
  RETURN_IF_ERROR(check_ranks("steps.slowest", profile.steps.slowest));
  return check_ranks("steps.all", profile.steps.all);
}

// Older profiles had one share of waiting: of the steps, or of the wall time if no steps were
// known.
void split_wait_share(TimeSplit& split) {
  if (split.step_ns > 0) split.step_wait_share = split.wait_share;
  if (split.wall_ns == 0) return;
  split.wait_share = static_cast<double>(split.wait_ns) / static_cast<double>(split.wall_ns);
}

bool has_one_wait_share(const Node& root) {
  const Node* time = root.find("time");
  const Node* mean = time == nullptr ? nullptr : time->find("mean");
  return mean != nullptr && mean->find("wait_share") != nullptr &&
         mean->find("step_wait_share") == nullptr;
}

// They did not know when training began and ended.
void add_training(TimeSplit& split, uint64_t begin_ns, uint64_t end_ns) {
  split.training_ns = split.wall_ns;
  if (begin_ns < end_ns && end_ns <= split.wall_ns) {
    split.startup_ns = begin_ns;
    split.training_ns = end_ns - begin_ns;
  }
  if (split.training_ns == 0) return;
  split.wait_share =
      std::min(static_cast<double>(split.wait_ns) / static_cast<double>(split.training_ns), 1.0);
}

bool knows_training(const Node& root) {
  const Node* time = root.find("time");
  const Node* mean = time == nullptr ? nullptr : time->find("mean");
  return mean == nullptr || mean->find("training_ns") != nullptr;
}

void add_training(Profile& profile) {
  uint64_t begin_ns = profile.epochs.empty() ? 0 : profile.job.wall_ns;
  uint64_t end_ns = 0;
  for (const EpochStats& epoch : profile.epochs) begin_ns = std::min(begin_ns, epoch.begin_ns);
  for (const RankLoad& rank : profile.ranks) end_ns = std::max(end_ns, rank.end_ns);
  add_training(profile.time.job, begin_ns, end_ns);
  add_training(profile.time.mean, begin_ns, end_ns);
  for (TimeSplit& host : profile.time.hosts) add_training(host, begin_ns, end_ns);
  for (TimeSplit& rank : profile.time.ranks) add_training(rank, begin_ns, end_ns);
  for (EpochStats& epoch : profile.epochs) add_training(epoch.time, 0, 0);
}

void split_wait_shares(Profile& profile) {
  split_wait_share(profile.time.job);
  split_wait_share(profile.time.mean);
  for (TimeSplit& host : profile.time.hosts) split_wait_share(host);
  for (TimeSplit& rank : profile.time.ranks) split_wait_share(rank);
  for (EpochStats& epoch : profile.epochs) split_wait_share(epoch.time);
}

}  // namespace

Result<Profile> parse_profile(std::string_view text, const std::string& name) {
  ASSIGN_OR_RETURN(const Document document, parse_json(text, name));
  RETURN_IF_ERROR(check_format(document));
  Profile profile;
  std::optional<Error> error;
  FieldReader fields(document, document.root, "", error);
  visit_fields(fields, profile);
  if (error) return *std::move(error);
  RETURN_IF_ERROR(check_sense(profile).within(name));
  if (has_one_wait_share(document.root)) split_wait_shares(profile);
  if (!knows_training(document.root)) add_training(profile);
  return profile;
}

Result<Profile> read_profile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kDocumentSizeMaxBytes));
  return parse_profile(text, path);
}

}  // namespace millrace::analyze
