#include "analyze/files/file_kinds.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace millrace::analyze {
namespace {

constexpr std::string_view kSystemPrefixes[] = {
    "/proc/",  "/sys/",   "/dev/",       "/etc/",   "/usr/",  "/lib/",  "/lib64/",
    "/lib32/", "/bin/",   "/sbin/",      "/run/",   "/nix/",  "/boot/", "/snap/",
    "pipe:",   "socket:", "anon_inode:", "/memfd:", "memfd:", "/dev",
};

// Directories of programs, wherever they are installed.
constexpr std::string_view kSystemParts[] = {
    "/site-packages/", "/dist-packages/", "/lib/python", "/__pycache__/", "/.venv/",
    "/.git/",          "/conda/",         "/.cache/",    "/.config/",
};

// Segments in shared memory through which processes talk to each other, by the start of their
// names: PyTorch's workers, Python's multiprocessing, semaphores, Open MPI, MPICH, libfabric, UCX,
// NCCL.
constexpr std::string_view kSegments[] = {
    "torch_",      "psm_",      "pymp-",    "sem.",      "vader_segment.",
    "sm_segment.", "open_mpi.", "openmpi-", "ompi.",     "mpich",
    "psm2_shm",    "psm3_shm",  "ucx_shm_", "Intel_MPI", "nccl-",
};

// Without ".pth": Python packages contain such files, but models are saved with the same extension.
constexpr std::string_view kSystemEndings[] = {".py",       ".pyc",       ".pyi", ".so",
                                               ".egg-link", "pyvenv.cfg", ".lock"};

constexpr std::string_view kCheckpointEndings[] = {
    ".pt", ".pth", ".ckpt", ".safetensors", ".distcp", ".keras", ".ckpt-index", ".msgpack"};

// Names that people give to the state of a model which they save as arrays or pickles.
constexpr std::string_view kStateWords[] = {"weights", "snapshot", "state_dict", "model", "optim"};
constexpr std::string_view kStateEndings[] = {".npz", ".npy",  ".pkl", ".pickle",
                                              ".h5",  ".hdf5", ".bin", ".joblib"};

bool ends_with_any(std::string_view path, const auto& endings) {
  return std::any_of(std::begin(endings), std::end(endings),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_shared_segment(std::string_view path) {
  constexpr std::string_view kShared = "/dev/shm/";
  if (!path.starts_with(kShared)) return false;
  const std::string_view name = path.substr(kShared.size());
  return name.find('/') == std::string_view::npos &&  // a folder there may hold a dataset
         std::any_of(std::begin(kSegments), std::end(kSegments),
                     [&](std::string_view start) { return name.starts_with(start); });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

bool is_system_path(std::string_view path) {
  if (path.empty() || path == "/" || path == ".") return true;
  if (path.front() == '<') return true;  // "<pipe>", "<socket>": written by the recorder
  if (is_shared_segment(path)) return true;
  // Relative paths are not system paths: the recorder writes one only if it could not resolve it,
  // and a foreign trace may have nothing else.
  for (const std::string_view prefix : kSystemPrefixes) {
    if (path.starts_with(prefix)) return !path.starts_with("/dev/shm/");
  }
  for (const std::string_view part : kSystemParts) {
    if (path.find(part) != std::string_view::npos) return true;
  }
  const std::string_view name = base_name(path);
  return ends_with_any(name, kSystemEndings) || name.find(".so.") != std::string_view::npos;
}

bool is_checkpoint_name(std::string_view path) {
  const std::string text = lower(path);
  if (text.find("checkpoint") != std::string::npos || text.find("ckpt") != std::string::npos ||
      ends_with_any(text, kCheckpointEndings)) {
    return true;
  }
  const std::string_view name = base_name(text);
  return ends_with_any(name, kStateEndings) &&
         std::any_of(std::begin(kStateWords), std::end(kStateWords),
                     [&](std::string_view word) { return name.starts_with(word); });
}

std::string extension_of(std::string_view path) {
  const std::string_view name = base_name(path);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return "(none)";
  std::string ending = lower(name.substr(dot));
  constexpr std::array<std::string_view, 5> kWrappers = {".gz", ".bz2", ".xz", ".zst", ".lz4"};
  if (std::find(kWrappers.begin(), kWrappers.end(), ending) != kWrappers.end()) {
    const size_t inner = name.rfind('.', dot - 1);
    if (inner != std::string_view::npos && inner > 0) ending = lower(name.substr(inner));
  }
  // "part.00017": a number is not an extension.
  const bool number = std::all_of(ending.begin() + 1, ending.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return number || ending.size() > 16 ? "(none)" : ending;
}

std::string_view directory_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return "(none)";
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

}  // namespace millrace::analyze
