#include "interop/pfw/vocabulary.h"

#include <iterator>
#include <string>
#include <unordered_map>

namespace millrace::interop {
namespace {

struct LevelInfo {
  std::string_view category;
  uint32_t type;
};
// By wire::Level. Types: 2 regions of a C program, 3 the C library, 5 HDF5, 10 MPI.
constexpr LevelInfo kLevels[wire::kLevelCount] = {
    {"NONE", 0}, {"POSIX", 3}, {"STDIO", 3}, {"MPIIO", 10}, {"HDF5", 5}, {kPfwAppCategory, 2}};

const LevelInfo& level_info(wire::Call call) {
  const auto level = static_cast<size_t>(wire::level_of(call));
  return kLevels[level < wire::kLevelCount ? level : 0];
}

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using CallTable = std::unordered_map<std::string, wire::Call, TextHash, std::equal_to<>>;

CallTable table_of(wire::Level level) {
  CallTable table;
  const auto base = static_cast<uint16_t>(static_cast<uint16_t>(level) << 8);
  for (uint16_t index = 0; index < 256; ++index) {
    const auto call = static_cast<wire::Call>(base + index);
    if (const wire::CallInfo* info = wire::call_info(call)) table.emplace(info->name, call);
  }
  return table;
}

std::optional<wire::Call> find_in(wire::Level level, std::string_view name) {
  static const CallTable kTables[] = {{},
                                      table_of(wire::Level::kPosix),
                                      table_of(wire::Level::kStdio),
                                      table_of(wire::Level::kMpiio),
                                      table_of(wire::Level::kHdf5)};
  const CallTable& table = kTables[static_cast<size_t>(level)];
  const auto found = table.find(name);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

std::optional<wire::Call> find_libc(wire::Level level, std::string_view name) {
  if (const auto call = find_in(level, name)) return call;
  return find_in(level == wire::Level::kPosix ? wire::Level::kStdio : wire::Level::kPosix, name);
}

std::string_view plain_name(std::string_view name) {
  if (name.ends_with("64")) name.remove_suffix(2);
  if (name == "__xstat") return "stat";
  if (name == "__lxstat") return "lstat";
  if (name == "__fxstat") return "fstat";
  if (name == "__fxstatat") return "fstatat";
  return name;
}

struct ArgumentEntry {
  std::string_view key;
  PfwArgument argument;
};
constexpr ArgumentEntry kArguments[] = {
    {"hhash", PfwArgument::kHostHash},
    {"fhash", PfwArgument::kFileHash},
    {"fname", PfwArgument::kFileName},
    {"ret", PfwArgument::kResult},
    {"offset", PfwArgument::kOffset},
    {"count", PfwArgument::kCount},
    {"size", PfwArgument::kSize},
    {"newpath_hash", PfwArgument::kOtherHash},
    {"other_offset", PfwArgument::kOtherOffset},
    {"flags", PfwArgument::kFlags},
    {"whence", PfwArgument::kWhence},
    {"detail", PfwArgument::kDetail},
    {"errno", PfwArgument::kErrno},
    {"epoch", PfwArgument::kEpoch},
    {"step", PfwArgument::kStep},
    {"name_hex", PfwArgument::kNameBytes},
    {"event_flags", PfwArgument::kEventFlags},
    {"ns", PfwArgument::kNanoseconds},
    {"pr", PfwArgument::kProcess},
    {"tags", PfwArgument::kTags},
    {"call", PfwArgument::kCall},
};

}  // namespace

std::string_view pfw_category(wire::Call call) { return level_info(call).category; }

uint32_t pfw_type(wire::Call call) { return level_info(call).type; }

std::optional<wire::Call> pfw_call(std::string_view category, std::string_view name) {
  if (category == "POSIX" || category == "STDIO") {
    const auto level = category == "POSIX" ? wire::Level::kPosix : wire::Level::kStdio;
    if (const auto call = find_libc(level, name)) return call;
    return find_libc(level, plain_name(name));
  }
  if (category == "MPIIO" || category == "MPI") return find_in(wire::Level::kMpiio, name);
  if (category == "HDF5") return find_in(wire::Level::kHdf5, name);
  return std::nullopt;
}

uint64_t pfw_unit_ns(std::string_view metric) {
  if (metric == "NS") return 1;
  if (metric == "MS") return 1'000'000;
  if (metric == "SEC") return 1'000'000'000;
  return 1000;
}

PfwArgument pfw_argument(std::string_view key) {
  // About twenty short words, and most lines use the first five: a linear search is faster than a
  // hash.
  for (const ArgumentEntry& entry : kArguments) {
    if (entry.key == key) return entry.argument;
  }
  return PfwArgument::kNone;
}

}  // namespace millrace::interop
