// The layout of an HDF5 file, and the rows that only libhdf5 can read.
#include "format/hdf5/calls.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>

#include "base/text/spelling.h"
#include "base/text/text.h"
#include "format/hdf5/driver.h"
#include "format/hdf5/handle.h"
#include "format/hdf5/types.h"

namespace millrace::format {
namespace {

using Kind = Hdf5Dataset::Kind;

// Datasets up to this size that we cannot read ourselves are read when the file is opened.
constexpr uint64_t kHeldBytesMax = 64 * 1024;
// More datasets than this are not samples; a damaged file may claim any number.
constexpr size_t kDatasetsMax = 100'000;
// Larger grids are left to libhdf5, because a list of their chunks would take too much memory.
constexpr uint64_t kGridMax = uint64_t{1} << 24;

// ---- names --------------------------------------------------------------------------------------

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info2_t;
#else
using ObjectInfo = H5O_info_t;
#endif

herr_t take_dataset(hid_t, const char* name, const ObjectInfo* info, void* out) {
  auto& names = *static_cast<std::vector<std::string>*>(out);
  if (info->type == H5O_TYPE_DATASET) names.emplace_back(name);
  return names.size() > kDatasetsMax ? -1 : 0;
}

// Each dataset once, also if it has several names. Soft and external links are not followed.
Result<std::vector<std::string>> dataset_names(hid_t file) {
  std::vector<std::string> names;
#if H5_VERSION_GE(1, 12, 0)
  const herr_t done =
      H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, take_dataset, &names, H5O_INFO_BASIC);
#else
  const herr_t done =
      H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, take_dataset, &names, H5O_INFO_BASIC);
#endif
  if (names.size() > kDatasetsMax) {
    return fail(Errc::kUnsupported, "has more than {} datasets; name those to read", kDatasetsMax);
  }
  if (done < 0) return fail_hdf5(Errc::kCorrupt, "its groups cannot be listed");
  return names;
}

Error no_such_dataset(hid_t file, const std::string& name) {
  const auto names = dataset_names(file);
  if (!names.ok()) return names.error();
  const auto shown = std::min<ptrdiff_t>(std::ssize(*names), 10);
  return fail(Errc::kNotFound, "has no dataset '{}'{}; it has {}{}", printable(name),
              did_you_mean(name, *names),
              join(std::vector<std::string>(names->begin(), names->begin() + shown), ", "),
              shown < std::ssize(*names) ? ", ..." : "");
}

// ---- one dataset --------------------------------------------------------------------------------

// An open dataset with what describes it.
struct Opened {
  Hdf5Id dataset;
  Hdf5Id type;
  Hdf5Id space;
  Hdf5Id creation;
};

Result<Opened> open_dataset(hid_t file, const std::string& name) {
  Opened opened;
  opened.dataset = Hdf5Id(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!opened.dataset.ok()) return fail_hdf5(Errc::kCorrupt, "cannot be opened");
  opened.type = Hdf5Id(H5Dget_type(opened.dataset.get()), H5Tclose);
  opened.space = Hdf5Id(H5Dget_space(opened.dataset.get()), H5Sclose);
  opened.creation = Hdf5Id(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  if (!opened.type.ok() || !opened.space.ok() || !opened.creation.ok()) {
    return fail_hdf5(Errc::kCorrupt, "cannot be described");
  }
  return opened;
}

Result<std::vector<uint64_t>> lengths_of(hid_t space) {
  const int axis_count = H5Sget_simple_extent_ndims(space);
  if (axis_count < 0) return fail_hdf5(Errc::kCorrupt, "its shape cannot be read");
  std::vector<hsize_t> lengths(static_cast<size_t>(axis_count));
  if (axis_count > 0 && H5Sget_simple_extent_dims(space, lengths.data(), nullptr) < 0) {
    return fail_hdf5(Errc::kCorrupt, "its shape cannot be read");
  }
  return std::vector<uint64_t>(lengths.begin(), lengths.end());
}

constexpr H5Z_filter_t kLzfFilter = 32000;  // registered by h5py

// A filter that neither we nor libhdf5 can undo, for people; empty if there is none.
std::string missing_filter(hid_t creation) {
  const int count = H5Pget_nfilters(creation);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    size_t value_count = 0;
    char name[64] = "";
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags,
                                               &value_count, nullptr, sizeof(name), name, &config);
    if (filter < 0 || filter == kLzfFilter || H5Zfilter_avail(filter) > 0) continue;
    return fmt::format(
        "compressed by filter {} '{}', which libhdf5 does not have; set "
        "HDF5_PLUGIN_PATH to it",
        filter, printable(name));
  }
  return {};
}

// The filters, if they are all ours and not combined in a way that hides the sizes between them.
std::optional<std::vector<Hdf5Filter>> filters_of(hid_t creation) {
  std::vector<Hdf5Filter> filters;
  const int count = H5Pget_nfilters(creation);
  size_t compression_count = 0;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0, values[1] = {0};
    size_t value_count = 1;
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags,
                                               &value_count, values, 0, nullptr, &config);
    if (filter == H5Z_FILTER_SHUFFLE && value_count >= 1 && values[0] > 0) {
      filters.push_back({Hdf5Filter::Kind::kShuffle, values[0]});
    } else if (filter == H5Z_FILTER_DEFLATE || filter == kLzfFilter) {
      filters.push_back(
          {filter == kLzfFilter ? Hdf5Filter::Kind::kLzf : Hdf5Filter::Kind::kDeflate});
      ++compression_count;
    } else if (filter == H5Z_FILTER_FLETCHER32) {
      filters.push_back({Hdf5Filter::Kind::kFletcher32});
    } else {
      return std::nullopt;
    }
  }
  if (count < 0 || count > 32 || compression_count > 1) return std::nullopt;
  return filters;
}

// Zeros if the file does not define it.
std::vector<std::byte> fill_of(hid_t creation, hid_t memory_type) {
  std::vector<std::byte> fill(H5Tget_size(memory_type));
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(creation, &defined) < 0 || defined == H5D_FILL_VALUE_UNDEFINED ||
      H5Pget_fill_value(creation, memory_type, fill.data()) < 0) {
    std::fill(fill.begin(), fill.end(), std::byte{0});
  }
  return fill;
}

Result<Kind> contiguous_kind(const Opened& opened, Hdf5Dataset& dataset) {
  if (H5Pget_external_count(opened.creation.get()) != 0) return Kind::kLibrary;
  const haddr_t address = H5Dget_offset(opened.dataset.get());
  if (address == HADDR_UNDEF) return Kind::kFill;
  dataset.offset_bytes = address;
  return Kind::kContiguous;
}

// Chunks at the edge of a dataset may be left without filters, which only libhdf5 knows.
bool filters_partial_chunks(hid_t creation) {
  unsigned options = 0;
  return H5Pget_chunk_opts(creation, &options) >= 0 &&
         (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0;
}

Result<Kind> chunked_kind(const Opened& opened, Hdf5Dataset& dataset) {
  const auto filters = filters_of(opened.creation.get());
  if (!filters || !filters_partial_chunks(opened.creation.get()) ||
      !can_find_chunks(opened.dataset.get())) {
    return Kind::kLibrary;
  }
  dataset.filters = *filters;
  std::vector<hsize_t> lengths(dataset.lengths.size());
  const int axis_count =
      H5Pget_chunk(opened.creation.get(), static_cast<int>(lengths.size()), lengths.data());
  if (axis_count != static_cast<int>(lengths.size())) {
    return fail(Errc::kCorrupt, "its chunks have {} axes, but it has {}", axis_count,
                lengths.size());
  }
  dataset.chunk_lengths.assign(lengths.begin(), lengths.end());
  uint64_t grid = 1;
  for (size_t axis = 0; axis < lengths.size(); ++axis) {
    if (lengths[axis] == 0) return fail(Errc::kCorrupt, "a chunk has no elements");
    const uint64_t length = dataset.grid_length(axis);
    if (length != 0 && grid > kGridMax / length) return Kind::kLibrary;
    grid *= length;
  }
  dataset.chunks.resize(grid);
  RETURN_IF_ERROR(find_chunks(opened.dataset.get(), dataset));
  return Kind::kChunked;
}

// How its elements are stored, if they are stored as they are in memory.
Result<Kind> kind_of(const Opened& opened, bool is_plain, Hdf5Dataset& dataset) {
  const H5D_layout_t layout = H5Pget_layout(opened.creation.get());
  if (is_plain && layout == H5D_CONTIGUOUS) return contiguous_kind(opened, dataset);
  if (is_plain && layout == H5D_CHUNKED) return chunked_kind(opened, dataset);
  return Kind::kLibrary;
}

// The last axis of a string is inside its element.
std::vector<hsize_t> element_lengths(const Hdf5Dataset& dataset, const Hdf5Type& type) {
  std::vector<hsize_t> lengths(dataset.lengths.begin(), dataset.lengths.end());
  if (type.string_bytes != 0) lengths.pop_back();
  return lengths;
}

Status read_elements(const Opened& opened, const Hdf5Type& type, const Hdf5Dataset& dataset,
                     Hdf5Rows rows, MutableByteView out) {
  if (out.empty()) return {};
  const Hdf5Id memory_type = memory_type_of(opened.type.get(), type);
  std::vector<hsize_t> counts = element_lengths(dataset, type);
  Hdf5Id memory_space(H5Screate(H5S_SCALAR), H5Sclose);
  if (!counts.empty()) {
    std::vector<hsize_t> first(counts.size(), 0);
    first[0] = rows.first;
    counts[0] = rows.count;
    memory_space =
        Hdf5Id(H5Screate_simple(static_cast<int>(counts.size()), counts.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(opened.space.get(), H5S_SELECT_SET, first.data(), nullptr,
                            counts.data(), nullptr) < 0) {
      return fail_hdf5(Errc::kCorrupt, "its rows cannot be selected");
    }
  }
  if (H5Dread(opened.dataset.get(), memory_type.get(), memory_space.get(), opened.space.get(),
              H5P_DEFAULT, out.data()) < 0) {
    return fail_hdf5(Errc::kCorrupt, "cannot be read");
  }
  return {};
}

// Nullopt, and a line in `ignored`, if its elements are not numbers.
Result<std::optional<Hdf5Dataset>> describe(hid_t file, const std::string& name,
                                            std::vector<std::string>& ignored) {
  ASSIGN_OR_RETURN(Opened opened, open_dataset(file, name));
  std::string what = "without elements";
  std::optional<Hdf5Type> type;
  if (H5Sget_simple_extent_type(opened.space.get()) != H5S_NULL) {
    type = element_of(opened.type.get(), what);
  }
  const std::string missing = missing_filter(opened.creation.get());
  if (!missing.empty()) what = missing;
  if (!type || !missing.empty()) {
    ignored.push_back(fmt::format("'{}' ({})", printable(name), what));
    return std::optional<Hdf5Dataset>();
  }
  Hdf5Dataset dataset;
  dataset.name = name;
  dataset.type = type->type;
  ASSIGN_OR_RETURN(dataset.lengths, lengths_of(opened.space.get()));
  const bool is_plain = type->is_plain && type->string_bytes == 0;
  if (type->string_bytes != 0) dataset.lengths.push_back(type->string_bytes);
  ASSIGN_OR_RETURN(dataset.kind, kind_of(opened, is_plain, dataset));
  const Hdf5Id memory_type = memory_type_of(opened.type.get(), *type);
  if (is_plain) dataset.fill = fill_of(opened.creation.get(), memory_type.get());
  RETURN_IF_ERROR(check_dataset(dataset));
  if (dataset.kind == Kind::kLibrary && dataset.size_bytes() <= kHeldBytesMax) {
    dataset.held.resize(dataset.size_bytes());
    dataset.kind = Kind::kHeld;
    RETURN_IF_ERROR(read_elements(opened, *type, dataset, {0, dataset.row_count()}, dataset.held));
  }
  return std::optional(std::move(dataset));
}

// ---- rows ---------------------------------------------------------------------------------------

// A dataset that stays open between reads, because opening a file takes longer than reading a row.
struct Kept {
  std::string path;
  std::string name;
  pid_t process = 0;
  struct stat info{};
  Hdf5Id file;
  Opened opened;
  Hdf5Type type;
};
constexpr size_t kKeptMax = 8;

bool is_same(const Kept& kept, const struct stat& info) {
  return kept.info.st_dev == info.st_dev && kept.info.st_ino == info.st_ino &&
         kept.info.st_size == info.st_size && kept.info.st_mtim.tv_sec == info.st_mtim.tv_sec &&
         kept.info.st_mtim.tv_nsec == info.st_mtim.tv_nsec;
}

Result<Kept> open_kept(const std::string& path, const Hdf5Dataset& dataset) {
  Kept kept;
  kept.path = path;
  kept.name = dataset.name;
  kept.process = getpid();
  if (stat(path.c_str(), &kept.info) != 0) return fail_os(errno, "cannot be opened");
  ASSIGN_OR_RETURN(kept.file, open_hdf5(path));
  ASSIGN_OR_RETURN(kept.opened, open_dataset(kept.file.get(), dataset.name));
  std::string what;
  const auto type = element_of(kept.opened.type.get(), what);
  ASSIGN_OR_RETURN(std::vector<uint64_t> lengths, lengths_of(kept.opened.space.get()));
  if (type && type->string_bytes != 0) lengths.push_back(type->string_bytes);
  if (!type || type->type != dataset.type || lengths != dataset.lengths) {
    return fail(Errc::kIo, "it has changed since the dataset was opened: open it again");
  }
  kept.type = *type;
  return kept;
}

// The lock guards the list. A forked child opens files again, so that it does not share positions
// in them with its parent.
Result<const Kept*> kept_dataset(const std::string& path, const Hdf5Dataset& dataset) {
  static auto* const list = new std::list<Kept>;  // most recently used first; never destroyed
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return fail_os(errno, "cannot be opened");
  list->remove_if([](const Kept& kept) { return kept.process != getpid(); });
  const auto found = std::find_if(list->begin(), list->end(), [&](const Kept& kept) {
    return kept.path == path && kept.name == dataset.name && is_same(kept, info);
  });
  if (found != list->end()) {
    list->splice(list->begin(), *list, found);
    return &list->front();
  }
  ASSIGN_OR_RETURN(Kept opened, open_kept(path, dataset));
  list->push_front(std::move(opened));
  if (list->size() > kKeptMax) list->pop_back();
  return &list->front();
}

// A library of another version than the headers has other structs. HDF5's own check calls abort().
Status check_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  if (major == H5_VERS_MAJOR && minor == H5_VERS_MINOR) return {};
  return fail(Errc::kUnsupported,
              "the program has loaded libhdf5 {}.{}.{}, but Millrace was built with {}.{}.{}; "
              "import millrace first, or build Millrace with that version",
              major, minor, release, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
}

}  // namespace

Result<Hdf5Layout> read_hdf5_layout(const std::string& path,
                                    const std::vector<std::string>& names) {
  const Hdf5Use use;
  RETURN_IF_ERROR(check_version());
  ASSIGN_OR_RETURN(const Hdf5Id file, open_hdf5(path));
  Hdf5Layout layout;
  std::vector<std::string> listed = names;
  if (names.empty()) {
    ASSIGN_OR_RETURN(listed, dataset_names(file.get()));
  }
  for (const std::string& name : listed) {
    if (!names.empty() && H5Oexists_by_name(file.get(), name.c_str(), H5P_DEFAULT) <= 0) {
      return no_such_dataset(file.get(), name);
    }
    ASSIGN_OR_RETURN(auto dataset, describe(file.get(), name, layout.ignored)
                                       .within(fmt::format("dataset '{}'", printable(name))));
    if (dataset) layout.datasets.push_back(*std::move(dataset));
  }
  return layout;
}

Status read_hdf5_rows(const std::string& path, const Hdf5Dataset& dataset, Hdf5Rows rows,
                      MutableByteView out) {
  const Hdf5Use use;
  ASSIGN_OR_RETURN(const Kept* const kept, kept_dataset(path, dataset));
  return read_elements(kept->opened, kept->type, dataset, rows, out);
}

}  // namespace millrace::format

extern "C" __attribute__((visibility("default")))
const millrace::format::Hdf5Library millrace_hdf5_entry;
const millrace::format::Hdf5Library millrace_hdf5_entry = {
    .version = MILLRACE_VERSION,
    .read_layout = &millrace::format::read_hdf5_layout,
    .read_rows = &millrace::format::read_hdf5_rows,
    .create = &millrace::format::create_hdf5};
