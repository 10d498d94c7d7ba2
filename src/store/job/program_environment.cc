#include "store/job/program_environment.h"

#include <unistd.h>

#include <cstdlib>

#include "base/system/own_library.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

// mca_base_env_list itself cannot be combined with mpirun -x.
constexpr char kForwardedVariable[] = "OMPI_MCA_mca_base_env_list_internal";

struct StoreVariables {
  std::string preload;    // LD_PRELOAD
  std::string forwarded;  // kForwardedVariable
};

StoreVariables variables_for(const fs::path& node, const fs::path& library) {
  StoreVariables made{.preload = preload_with(variable_of("LD_PRELOAD"), library), .forwarded = {}};
  made.forwarded = forwarded_list(variable_of(kForwardedVariable), node, made.preload);
  return made;
}

}  // namespace

std::string variable_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<fs::path> find_client_library() {
  ASSIGN_OR_RETURN(fs::path named, library_named_by("MILLRACE_STORE_LIBRARY"));
  if (!named.empty()) return named;
  auto found = find_own_library("libmillrace_store.so");
  if (found.ok()) return found;
  return fail(Errc::kNotFound, "the store's {}; set MILLRACE_STORE_LIBRARY to its path",
              found.error().message());
}

std::string preload_with(const std::string& before, const fs::path& library) {
  if (before.empty() || before == library) return library.string();
  if (before.ends_with(":" + library.string())) return before;  // of an earlier `up`
  return fmt::format("{}:{}", before, library.string());
}

std::string forwarded_list(std::string before, const fs::path& node, const std::string& preload) {
  const size_t ours = before.find(wire::kStoreVariable);  // of an earlier `up`
  if (ours != std::string::npos) before.resize(ours);
  if (!before.empty() && before.back() != ';') before += ';';
  return before + fmt::format("{}={};LD_PRELOAD={}", wire::kStoreVariable, node.string(), preload);
}

std::vector<std::string> program_environment(const fs::path& node, const fs::path& library) {
  const StoreVariables ours = variables_for(node, library);
  // If there is no service, such as on a login node, the command is an mpirun, and would warn.
  // srun has no list of variables, and passes on its own.
  std::error_code error;
  const bool is_here = fs::exists(node, error) || std::getenv("SLURM_JOB_ID") != nullptr;
  const auto is_variable = [](std::string_view entry, std::string_view name) {
    return entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
  };
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool is_ours = is_variable(text, "LD_PRELOAD") || is_variable(text, wire::kStoreVariable);
    if ((!is_here || !is_ours) && !is_variable(text, kForwardedVariable)) {
      entries.emplace_back(text);
    }
  }
  entries.push_back(fmt::format("{}={}", kForwardedVariable, ours.forwarded));
  if (!is_here) return entries;
  entries.push_back(fmt::format("{}={}", wire::kStoreVariable, node.string()));
  entries.push_back(fmt::format("LD_PRELOAD={}", ours.preload));
  return entries;
}

std::string shell_exports(const fs::path& node, const fs::path& library) {
  const StoreVariables ours = variables_for(node, library);
  return fmt::format("export {}={}\nexport LD_PRELOAD={}\nexport {}={}\n", wire::kStoreVariable,
                     shell_quoted(node.string()), shell_quoted(ours.preload), kForwardedVariable,
                     shell_quoted(ours.forwarded));
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace millrace::store
