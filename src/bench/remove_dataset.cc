#include "bench/remove_dataset.h"

#include <filesystem>

#include "base/text.h"
#include "bench/layout.h"
#include "bench/manifest.h"

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
std::vector<fs::path> files_beside(const std::string& format, const fs::path& path) {
  if (format.ends_with("indexed_binary")) {
    return {path, path.string() + ".off.idx", path.string() + ".sz.idx"};
  }
  if (format == "megatron") return {path, fs::path(path).replace_extension("idx")};
  return {path};
}

Result<uint64_t> remove_file(const fs::path& path) {
  std::error_code error;
  const bool was_there = fs::remove(path, error);
  if (error)
    return fail_os(error.value(), "cannot delete the file").within(printable(path.string()));
  return uint64_t{was_there ? 1u : 0u};
}

// Folders with other files in them stay.
void remove_empty_folders(const Layout& layout) {
  std::error_code ignored;
  for (const Split split : {Split::kTrain, Split::kEval}) {
    for (uint64_t i = 0; i < layout.subfolder_count(split); ++i) {
      fs::remove(layout.subfolder(split, i), ignored);
    }
    fs::remove(layout.folder(split), ignored);
  }
  fs::remove(layout.data_folder(), ignored);
}

}  // namespace

Status check_removable(const Workload& workload) {
  ASSIGN_OR_RETURN(const Manifest manifest, manifest_to_remove(workload));
  static_cast<void>(manifest);
  return {};
}

Result<uint64_t> remove_dataset(const Workload& workload) {
  ASSIGN_OR_RETURN(Manifest manifest, manifest_to_remove(workload));
  ASSIGN_OR_RETURN(const Layout layout, Layout::of(workload));
  // Until the last file is gone, whoever finds the folder must know that it is incomplete.
  manifest.is_complete = false;
  RETURN_IF_ERROR(write_manifest(layout.data_folder(), manifest));
  uint64_t count = 0;
  for (uint64_t i = 0; i < layout.file_count(); ++i) {
    for (const fs::path& path :
         files_beside(workload.dataset.format, layout.path(layout.file_at(i)))) {
      ASSIGN_OR_RETURN(const uint64_t removed, remove_file(path));
      count += removed;
    }
  }
  ASSIGN_OR_RETURN(const uint64_t removed,
                   remove_file(fs::path(layout.data_folder()) / kManifestName));
  remove_empty_folders(layout);
  return count + removed;
}

}  // namespace millrace::bench
