// nftw and ftw below the root. The C library's own would read the directories of the tree, which
// lack the files that nobody has read yet.
//
// The names that programs have created follow those of the catalogue.
//
// As there: without FTW_PHYS, links are followed and each directory is visited once. A link that
// leads out of the root is reported, but a directory there is not entered; nor is one behind a link
// that a program has created.
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
  uint32_t entry;       // kNoEntry: a program has created it
  uint32_t next_child;  // kNoChild: its children were skipped
  uint32_t path_size;   // of the directory's own name
  uint32_t base;        // where its last component begins
  DIR* written;         // the names that programs have created; null: not opened
};
constexpr uint32_t kNoChild = ~0u;
constexpr size_t kLevelsMax = 330;

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

  // 0, what the visitor returned, or -1 with errno. If the start is kNoEntry, `real` is its real
  // name.
  int run(uint32_t start, const char* path, const char* real) {
    const size_t size = strlen(path);
    if (size >= kPathBytes) return failure<int>(ENAMETOOLONG);
    memcpy(journey_.path, path, size + 1);
    size_t end = size;
    while (end > 1 && journey_.path[end - 1] == '/') journey_.path[--end] = '\0';
    uint32_t base = static_cast<uint32_t>(end);
    while (base > 0 && journey_.path[base - 1] != '/') --base;
    journey_.depth = 0;
    const auto path_size = static_cast<uint32_t>(end);
    int result = start != kNoEntry ? see(start, path_size, base)
                                   : see_written(AT_FDCWD, real, path_size, base);
    while (result == 0 && journey_.depth > 0) result = step();
    const int error = errno;
    while (journey_.depth > 0) close_written(journey_.levels[--journey_.depth]);
    errno = error;
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
    journey_.levels[journey_.depth++] = {entry, 0, path_size, base, nullptr};
    return visit_.has(FTW_CHDIR) ? change_directory(journey_.levels[journey_.depth - 1]) : 0;
  }

  // A name that a program has created, in an open directory.
  int see_written(int directory, const char* name, uint32_t path_size, uint32_t base) {
    struct stat status = {};
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return answer(call(path_size, &status, FTW_NS, base));
    }
    if (S_ISDIR(status.st_mode)) return enter_written(directory, name, status, path_size, base);
    if (!S_ISLNK(status.st_mode)) return answer(call(path_size, &status, FTW_F, base));
    if (visit_.has(FTW_PHYS)) return answer(call(path_size, &status, FTW_SL, base));
    struct stat target;
    const bool exists = fstatat(directory, name, &target, 0) == 0;
    const int kind = !exists ? FTW_SLN : S_ISDIR(target.st_mode) ? FTW_D : FTW_F;
    return answer(call(path_size, exists ? &target : &status, kind, base));
  }

  int enter_written(int directory, const char* name, const struct stat& status, uint32_t path_size,
                    uint32_t base) {
    if (journey_.depth == kLevelsMax) return failure<int>(ENAMETOOLONG);
    const int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR* stream = fd < 0 ? nullptr : fdopendir(fd);
    if (stream == nullptr) {
      if (fd >= 0) close(fd);
      return answer(call(path_size, &status, FTW_DNR, base));
    }
    if (!visit_.has(FTW_DEPTH)) {
      const int result = call(path_size, &status, FTW_D, base);
      if (result != 0) {
        closedir(stream);
        return answer(result);
      }
    }
    journey_.levels[journey_.depth++] = {kNoEntry, 0, path_size, base, stream};
    return visit_.has(FTW_CHDIR) ? change_directory(journey_.levels[journey_.depth - 1]) : 0;
  }

  static void close_written(Level& level) {
    if (level.written != nullptr) closedir(level.written);
    level.written = nullptr;
  }

  int change_directory(const Level& level) {
    if (level.entry == kNoEntry) return fchdir(dirfd(level.written));
    static constinit Real<int(const char*)> real{"chdir"};
    const int result = with_real_path(level.entry, [&](const char* path) { return real(path); });
    forget_working_directory();
    return result;
  }

  // The next child of the directory at the end of the journey, or the way back.
  int step() {
    Level& level = journey_.levels[journey_.depth - 1];
    if (level.next_child == kNoChild) return leave(level);
    if (level.entry != kNoEntry) {
      const wire::CatalogueView::Children children =
          client.catalogue.children(entry_at(level.entry));
      if (level.next_child < children.count) {
        const uint32_t child = children.first + level.next_child++;
        const uint32_t base = add_name(level, client.catalogue.name(entry_at(child)));
        return base == 0 ? failure<int>(ENAMETOOLONG) : see(child, end_, base);
      }
      if (level.written == nullptr) level.written = open_written(level.entry);
    }
    const struct dirent64* next =
        level.written == nullptr ? nullptr : next_written(level.written, level.entry);
    if (next == nullptr) return leave(level);
    const uint32_t base = add_name(level, next->d_name);
    if (base == 0) return failure<int>(ENAMETOOLONG);
    return see_written(dirfd(level.written), journey_.path + base, end_, base);
  }

  // Adds a name to the path of a directory. Returns where it begins; 0 if it is too long.
  uint32_t add_name(const Level& level, std::string_view name) {
    uint32_t size = level.path_size;
    if (size + name.size() + 2 > sizeof(journey_.path)) return 0;
    if (size == 0 || journey_.path[size - 1] != '/') journey_.path[size++] = '/';
    memcpy(journey_.path + size, name.data(), name.size());
    end_ = size + static_cast<uint32_t>(name.size());
    journey_.path[end_] = '\0';
    return size;
  }

  int leave(Level& level) {
    struct stat status = {};
    if (level.entry != kNoEntry) {
      fill_status(level.entry, &status);
    } else {
      fstat(dirfd(level.written), &status);
    }
    close_written(level);
    const Level left = level;
    --journey_.depth;
    if (visit_.has(FTW_CHDIR) && journey_.depth > 0) {
      const int result = change_directory(journey_.levels[journey_.depth - 1]);
      if (result != 0) return result;
    }
    if (!visit_.has(FTW_DEPTH)) return 0;
    return answer(call(left.path_size, &status, FTW_DP, left.base));
  }

  // What a result of the visitor means: 0 to go on.
  int answer(int result) {
    if (!visit_.has(FTW_ACTIONRETVAL)) return result;
    if (result == FTW_SKIP_SIBLINGS) {
      if (journey_.depth > 0) journey_.levels[journey_.depth - 1].next_child = kNoChild;
      return 0;
    }
    return result == FTW_CONTINUE || result == FTW_SKIP_SUBTREE ? 0 : result;
  }

  Journey& journey_;
  Visited& visited_;
  Visitor visit_;
  uint32_t end_ = 0;  // of the path after add_name()
};

int walk_tree(uint32_t start, const char* path, const Visitor& visitor,
              const char* real = nullptr) {
  const hook::Scratch<Journey> journey;
  Visited visited;
  if (!journey || !visited) return failure<int>(ENOMEM);
  const hook::Scratch<hook::ScratchText> before;
  const bool returns =
      visitor.has(FTW_CHDIR) && before && getcwd(before->text, sizeof(before->text)) != nullptr;
  const int result = Walker(*journey, visited, visitor).run(start, path, real);
  const int error = errno;
  if (returns && chdir(before->text) != 0) return -1;
  errno = error;
  return result;
}

bool is_in_written_tree(const char* real) {
  return active() && !is_bad(real) && client.below_tree(real).data() != nullptr;
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
      [&](int, const char* other) {
        if (!is_in_written_tree(other)) return real(other, visit, descriptors, flags);
        return walk_tree(kNoEntry, path, {.nftw = visit, .flags = flags}, other);
      });
}

int ftw(const char* path, __ftw_func_t visit, int descriptors) {
  static constinit Real<int(const char*, __ftw_func_t, int)> real{"ftw"};
  return on_path(
      AT_FDCWD, path, Last::kFollow,
      [&](uint32_t entry) { return walk_tree(entry, path, {.ftw = visit}); },
      [&](int, const char* other) {
        if (!is_in_written_tree(other)) return real(other, visit, descriptors);
        return walk_tree(kNoEntry, path, {.ftw = visit}, other);
      });
}

}  // extern "C"

// Other names of the same calls.
asm(R"(
  .globl nftw64
  .set nftw64, nftw
  .globl ftw64
  .set ftw64, ftw
)");
