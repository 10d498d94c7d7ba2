#include "trace/preload/hdf5.h"

#include <cstring>
#include <string_view>

#include "hook/scratch.h"
#include "trace/preload/text.h"
#include "wire/trace_session.h"

namespace millrace::trace {
namespace {

constinit HandleTable objects{};  // identifier -> name << 32 | file
constinit HandleTable paths{};    // hash of a relative path -> name

constexpr Id kLargestSpecialId = 15;  // H5S_ALL, H5S_BLOCK, H5S_PLIST are small numbers
constexpr int kClassVariableLength = 9;

HandleTable::Key path_key(std::string_view path) {
  return {wire::name_hash(path.data(), path.size()) | 1, 0};
}

}  // namespace

bool Hdf5::known() const {
  static constinit Foreign<int(unsigned*, unsigned*, unsigned*)> get_version{"H5get_libversion"};
  static constinit HandleTable versions{};
  auto* function = get_version.get(caller_);
  if (function == nullptr) return false;
  const HandleTable::Key key{reinterpret_cast<uint64_t>(function), 0};
  uint64_t version = versions.find(key);
  if (version == 0) {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (function(&major, &minor, &release) < 0) return false;
    version = uint64_t{major} << 32 | minor;
    versions.put(key, version);
  }
  return version >= (uint64_t{1} << 32 | 10);
}

// The address of one of its functions identifies a library.
uint64_t Hdf5::library() const {
  static constinit Foreign<int(Id)> is_valid{"H5Iis_valid"};
  return reinterpret_cast<uint64_t>(is_valid.get(caller_));
}

bool Hdf5::valid(Id object) const {
  static constinit Foreign<int(Id)> is_valid{"H5Iis_valid"};
  auto* function = is_valid.get(caller_);
  return function != nullptr && object > kLargestSpecialId && function(object) > 0;
}

void Hdf5::keep(Id object, const Names& names) const {
  const uint64_t value =
      uint64_t{static_cast<uint32_t>(names.name)} << 32 | static_cast<uint32_t>(names.file);
  objects.put({static_cast<uint64_t>(object), library()}, value);
}

void Hdf5::forget(Id object) const { objects.erase({static_cast<uint64_t>(object), library()}); }

void Hdf5::keep_path(const char* path, NameId name) const {
  if (path == nullptr || path[0] == '/') return;
  paths.put(path_key(path), static_cast<uint32_t>(name));
}

Hdf5::Names Hdf5::names_of(Id object) const {
  if (!known() || object <= kLargestSpecialId) return {};
  const uint64_t value = objects.find({static_cast<uint64_t>(object), library()});
  if (value != 0) {
    return {NameId{static_cast<uint32_t>(value >> 32)}, NameId{static_cast<uint32_t>(value)}};
  }
  if (!valid(object)) return {};
  const Names names = ask_names(object);
  keep(object, names);
  return names;
}

Hdf5::Names Hdf5::ask_names(Id object) const {
  static constinit Foreign<ssize_t(Id, char*, size_t)> file_name{"H5Fget_name"};
  static constinit Foreign<ssize_t(Id, char*, size_t)> object_name{"H5Iget_name"};
  auto* ask_file = file_name.get(caller_);
  auto* ask_object = object_name.get(caller_);
  struct Texts {
    char path[4096];
    char inside[4096];
  };
  const hook::Scratch<Texts> texts;
  if (ask_file == nullptr || ask_object == nullptr || !texts) return {};
  const auto& path = texts->path;
  if (ask_file(object, texts->path, sizeof(path)) <= 0) return {};
  Names names;
  if (path[0] != '/') {
    names.file = NameId{static_cast<uint32_t>(paths.find(path_key(path)))};
  }
  if (names.file == kNoName) names.file = intern_path(path);
  names.name = names.file;
  const auto& inside = texts->inside;
  const ssize_t size = ask_object(object, texts->inside, sizeof(inside));
  struct Name {
    char text[wire::kNameLengthMax];
  };
  if (size > 0 && std::string_view(inside) != "/") {
    const hook::Scratch<Name> name;
    if (!name) return names;
    const size_t length =
        Text(name->text).add(recorder.names.text(names.file)).add(":").add(inside).size();
    names.name = intern({name->text, length});
  }
  return names;
}

int64_t Hdf5::points_of(const Selection& selection) const {
  static constinit Foreign<int64_t(Id)> count_points{"H5Sget_select_npoints"};
  static constinit Foreign<Id(Id)> get_space{"H5Dget_space"};
  static constinit Foreign<int(Id)> close_space{"H5Sclose"};
  auto* count = count_points.get(caller_);
  auto* space_of = get_space.get(caller_);
  auto* close = close_space.get(caller_);
  if (count == nullptr || space_of == nullptr || close == nullptr) return -1;
  if (selection.memory_space > kLargestSpecialId) return count(selection.memory_space);
  if (selection.file_space > kLargestSpecialId) return count(selection.file_space);
  const Id whole = space_of(selection.dataset);
  if (whole < 0) return -1;
  const int64_t points = count(whole);
  close(whole);
  return points;
}

Hdf5::Extent Hdf5::extent_of(const Selection& selection) const {
  static constinit Foreign<size_t(Id)> get_size{"H5Tget_size"};
  static constinit Foreign<int(Id)> is_variable_text{"H5Tis_variable_str"};
  static constinit Foreign<int(Id, int)> has_class{"H5Tdetect_class"};
  auto* size_of = get_size.get(caller_);
  auto* is_text = is_variable_text.get(caller_);
  auto* has = has_class.get(caller_);
  if (!known() || size_of == nullptr || is_text == nullptr || has == nullptr) return {};
  const int64_t points = points_of(selection);
  if (points < 0) return {};
  const size_t element = size_of(selection.type);
  return {.bytes = static_cast<uint64_t>(points) * element,
          .estimate = is_text(selection.type) > 0 || has(selection.type, kClassVariableLength) > 0};
}

uint64_t Hdf5::chunk_size(Id dataset, const uint64_t* offset) const {
  static constinit Foreign<int(Id, const uint64_t*, uint64_t*)> get_size{
      "H5Dget_chunk_storage_size"};
  auto* size_of = get_size.get(caller_);
  uint64_t size = 0;
  if (!known() || size_of == nullptr || size_of(dataset, offset, &size) < 0) return 0;
  return size;
}

}  // namespace millrace::trace
