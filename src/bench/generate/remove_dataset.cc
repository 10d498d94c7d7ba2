// Removes datasets that generate() has written.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/text/text.h"
#include "bench/generate/file_job.h"
#include "bench/generate/generate.h"
#include "bench/generate/manifest.h"
#include "bench/workload/own_files.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

Result<Manifest> manifest_to_remove(const Workload& workload) {
  ASSIGN_OR_RETURN(std::optional<Manifest> found, check_dataset(workload));
  if (found) return *std::move(found);
  return fail(Errc::kInvalidArgument,
              "{}: has no {}, so millrace did not generate the dataset and will not delete it; set "
              "dataset.keep_files=true",
              printable(data_folder_of(workload)), kManifestName);
}

// The file of the samples, and those that its format writes beside it.
std::vector<fs::path> files_beside(DatasetFormat format, const fs::path& path) {
  if (traits_of(format).has_index) {
    return {path, path.string() + ".off.idx", path.string() + ".sz.idx"};
  }
  if (format == DatasetFormat::kMegatron) return {path, fs::path(path).replace_extension("idx")};
  return {path};
}

// Removes a file that is as generate() left it. `size_bytes`: nullopt if it is not known.
Status remove_file(const fs::path& path, std::optional<uint64_t> size_bytes, int64_t written_ns,
                   RemovedDataset& removed) {
  std::error_code error;
  const auto modified_ns = modified_ns_of(path);
  if (!modified_ns && fs::symlink_status(path, error).type() == fs::file_type::not_found) return {};
  const bool has_size = !size_bytes || fs::file_size(path, error) == *size_bytes;
  if (!modified_ns || *modified_ns > written_ns || !has_size) {
    removed.changed.push_back(path.string());
    return {};
  }
  fs::remove(path, error);
  if (error) {
    return fail_os(error.value(), "cannot delete the file").within(printable(path.string()));
  }
  ++removed.file_count;
  return {};
}

// Folders that generate() did not make stay, and those with other files in them. Not fs::remove(),
// which also removes files.
void remove_empty_folders(const Layout& layout, const Manifest& manifest) {
  const auto remove = [&](const fs::path& path) {
    const std::string name = path.lexically_relative(layout.data_folder()).native();
    if (std::ranges::find(manifest.folders, name) != manifest.folders.end()) ::rmdir(path.c_str());
  };
  for (const Split split : {Split::kTrain, Split::kEval}) {
    for (uint64_t i = 0; i < layout.subfolder_count(split); ++i) {
      remove(layout.subfolder(split, i));
    }
    remove(layout.folder(split));
  }
  remove(layout.data_folder());
}

}  // namespace

Status check_removable(const Workload& workload) {
  ASSIGN_OR_RETURN(const Manifest manifest, manifest_to_remove(workload));
  static_cast<void>(manifest);
  return {};
}

Result<RemovedDataset> remove_dataset(const Workload& workload) {
  ASSIGN_OR_RETURN(Manifest manifest, manifest_to_remove(workload));
  ASSIGN_OR_RETURN(const DatasetPlan plan, DatasetPlan::of(workload));
  const Layout& layout = plan.layout;
  RemovedDataset removed;
  // Until the last file is gone, whoever finds the folder must know that it is incomplete.
  manifest.is_complete = false;
  RETURN_IF_ERROR(write_manifest(layout.data_folder(), manifest));
  for (uint64_t i = 0; i < layout.file_count(); ++i) {
    const FileId file = layout.file_at(i);
    const fs::path path = layout.path(file);
    for (const fs::path& each : files_beside(workload.dataset.format, path)) {
      const auto size_bytes = each == path ? known_file_bytes(plan, file) : std::nullopt;
      RETURN_IF_ERROR(remove_file(each, size_bytes, manifest.written_ns, removed));
    }
  }
  std::error_code error;
  if (fs::remove(fs::path(layout.data_folder()) / kManifestName, error)) ++removed.file_count;
  remove_empty_folders(layout, manifest);
  return removed;
}

}  // namespace millrace::bench
