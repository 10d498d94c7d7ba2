// nftw and ftw below the root. The C library's own would read the directories of the tree, which
// lack the files that nobody has read yet.
//
// As there: without FTW_PHYS, links are followed and each directory is visited once. A link that
// leads out of the root is reported, but a directory there is not entered.
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/syscall.h"
#include "store/preload/attributes.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// A directory that is being visited.
struct Level {
  uint32_t entry;
  uint32_t next_child;
  uint32_t path_size;  // of the directory's own name
  uint32_t base;       // where its last component begins
};
constexpr size_t kLevelsMax = 500;

struct Journey {
  char path[2 * kPathBytes];
  Level levels[kLevelsMax];
  size_t depth;
};
static_assert(sizeof(Journey) <= hook::kScratchBytes);

struct Visitor {
  __nftw_func_t nftw = nullptr;
  __ftw_func_t ftw = nullptr;
  int flags = 0;

  int operator()(const char* path, const struct stat* status, int kind, int base, int level) const {
    if (ftw != nullptr) return ftw(path, status, kind == FTW_SLN ? FTW_NS : kind);
    struct FTW place = {.base = base, .level = level};
    return nftw(path, status, kind, &place);
  }
  bool has(int flag) const { return (flags & flag) != 0; }
};

// The directories that were visited: a bit for each entry.
class Visited {
 public:
  Visited() : size_(client.catalogue.entry_count() / 8 + 1) {
    bits_ = static_cast<unsigned char*>(hook::sys_mmap(
        size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~Visited() {
    if (bits_ != nullptr) hook::sys_munmap(bits_, size_);
  }
  Visited(const Visited&) = delete;
  Visited& operator=(const Visited&) = delete;

  explicit operator bool() const { return bits_ != nullptr; }
  // False if it was marked before.
  bool mark(uint32_t entry) {
    unsigned char& bits = bits_[entry / 8];
    const auto bit = static_cast<unsigned char>(1u << entry % 8);
    const bool is_new = (bits & bit) == 0;
    bits |= bit;
    return is_new;
  }

 private:
  size_t size_;
  unsigned char* bits_;
};

class Walker {
 public:
  Walker(Journey& journey, Visited& visited, const Visitor& visit)
      : journey_(journey), visited_(visited), visit_(visit) {}

  // 0, what the visitor returned, or -1 with errno.
  int run(uint32_t start, const char* path) {
    const size_t size = strlen(path);
    if (size >= kPathBytes) return failure<int>(ENAMETOOLONG);
    memcpy(journey_.path, path, size + 1);
    size_t end = size;
    while (end > 1 && journey_.path[end - 1] == '/') journey_.path[--end] = '\0';
    uint32_t base = static_cast<uint32_t>(end);
    while (base > 0 && journey_.path[base - 1] != '/') --base;
    journey_.depth = 0;
    int result = see(start, static_cast<uint32_t>(end), base);
    while (result == 0 && journey_.depth > 0) result = step();
    return result;
  }

 private:
  int call(uint32_t path_size, const struct stat* status, int kind, uint32_t base) {
    journey_.path[path_size] = '\0';
    const int result = visit_(journey_.path, status, kind, static_cast<int>(base),
                              static_cast<int>(journey_.depth));
    return result;
  }

  // An entry under the name in `path`; links are not resolved yet.
  int see(uint32_t entry, uint32_t path_size, uint32_t base) {
    struct stat status;
    if (entry_at(entry).kind == EntryKind::kLink && !visit_.has(FTW_PHYS)) {
      return see_link(entry, path_size, base);
    }
    fill_status(entry, &status);
    if (is_directory(entry)) return enter(entry, path_size, base);
    return answer(call(path_size, &status, S_ISLNK(status.st_mode) ? FTW_SL : FTW_F, base));
  }

  int see_link(uint32_t entry, uint32_t path_size, uint32_t base) {
    const hook::Scratch<Walk> walk;
    if (!walk) return failure<int>(ENOMEM);
    const uint32_t parent = entry_at(entry).parent;
    const std::string_view name = client.catalogue.name(entry_at(entry));
    const Place place = walk_path(client.catalogued(), parent, name, Last::kFollow, *walk);
    struct stat status;
    if (place.where == Where::kInside && is_directory(place.entry)) {
      return enter(place.entry, path_size, base);
    }
    if (place.where == Where::kInside) {
      fill_status(place.entry, &status);
      return answer(call(path_size, &status, FTW_F, base));
    }
    static constinit Real<int(int, const char*, struct stat*, int)> real{"fstatat"};
    const bool exists =
        place.where == Where::kElsewhere && real(AT_FDCWD, place.path, &status, 0) == 0;
    if (!exists) fill_status(entry, &status);
    const int kind = !exists ? FTW_SLN : S_ISDIR(status.st_mode) ? FTW_D : FTW_F;
    return answer(call(path_size, &status, kind, base));
  }

  int enter(uint32_t entry, uint32_t path_size, uint32_t base) {
    if (!visited_.mark(entry)) return 0;
    if (journey_.depth == kLevelsMax) return failure<int>(ENAMETOOLONG);
    if (!visit_.has(FTW_DEPTH)) {
      struct stat status;
      fill_status(entry, &status);
      const int result = call(path_size, &status, FTW_D, base);
      if (result != 0) return answer(result);
    }
    journey_.levels[journey_.depth++] = {entry, 0, path_size, base};
    return visit_.has(FTW_CHDIR) ? change_directory(entry) : 0;
  }

  int change_directory(uint32_t entry) {
    static constinit Real<int(const char*)> real{"chdir"};
    const int result = with_real_path(entry, [&](const char* path) { return real(path); });
    forget_working_directory();
    return result;
  }

  // The next child of the directory at the end of the journey, or the way back.
  int step() {
    const Level level = journey_.levels[journey_.depth - 1];
    const wire::CatalogueView::Children children = client.catalogue.children(entry_at(level.entry));
    if (level.next_child >= children.count) return leave(level);
    ++journey_.levels[journey_.depth - 1].next_child;
    const uint32_t child = children.first + level.next_child;
    const std::string_view name = client.catalogue.name(entry_at(child));
    uint32_t size = level.path_size;
    if (size + name.size() + 2 > sizeof(journey_.path)) return failure<int>(ENAMETOOLONG);
    if (size == 0 || journey_.path[size - 1] != '/') journey_.path[size++] = '/';
    const uint32_t base = size;
    memcpy(journey_.path + size, name.data(), name.size());
    return see(child, size + static_cast<uint32_t>(name.size()), base);
  }

  int leave(const Level& level) {
    --journey_.depth;
    if (visit_.has(FTW_CHDIR) && journey_.depth > 0) {
      const int result = change_directory(journey_.levels[journey_.depth - 1].entry);
      if (result != 0) return result;
    }
    if (!visit_.has(FTW_DEPTH)) return 0;
    struct stat status;
    fill_status(level.entry, &status);
    return answer(call(level.path_size, &status, FTW_DP, level.base));
  }

  // What a result of the visitor means: 0 to go on.
  int answer(int result) {
    if (!visit_.has(FTW_ACTIONRETVAL)) return result;
    if (result == FTW_SKIP_SIBLINGS) {
      if (journey_.depth > 0) journey_.levels[journey_.depth - 1].next_child = ~0u;
      return 0;
    }
    return result == FTW_CONTINUE || result == FTW_SKIP_SUBTREE ? 0 : result;
  }

  Journey& journey_;
  Visited& visited_;
  Visitor visit_;
};

int walk_tree(uint32_t start, const char* path, const Visitor& visitor) {
  const hook::Scratch<Journey> journey;
  Visited visited;
  if (!journey || !visited) return failure<int>(ENOMEM);
  const hook::Scratch<hook::ScratchText> before;
  const bool returns =
      visitor.has(FTW_CHDIR) && before && getcwd(before->text, sizeof(before->text)) != nullptr;
  const int result = Walker(*journey, visited, visitor).run(start, path);
  const int error = errno;
  if (returns && chdir(before->text) != 0) return -1;
  errno = error;
  return result;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int nftw(const char* path, __nftw_func_t visit, int descriptors, int flags) {
  static constinit Real<int(const char*, __nftw_func_t, int, int)> real{"nftw"};
  return on_path(
      AT_FDCWD, path, (flags & FTW_PHYS) != 0 ? Last::kKeepLink : Last::kFollow,
      [&](uint32_t entry) { return walk_tree(entry, path, {.nftw = visit, .flags = flags}); },
      [&](int, const char* other) { return real(other, visit, descriptors, flags); });
}

int ftw(const char* path, __ftw_func_t visit, int descriptors) {
  static constinit Real<int(const char*, __ftw_func_t, int)> real{"ftw"};
  return on_path(
      AT_FDCWD, path, Last::kFollow,
      [&](uint32_t entry) { return walk_tree(entry, path, {.ftw = visit}); },
      [&](int, const char* other) { return real(other, visit, descriptors); });
}

}  // extern "C"

// Other names of the same calls.
asm(R"(
  .globl nftw64
  .set nftw64, nftw
  .globl ftw64
  .set ftw64, ftw
)");
