// nftw and ftw, by our own functions. Those of the C library do not call hooks, and would read the
// directories of the tree, which lack the files that nobody has read yet. A walk that begins
// outside may reach the root, too.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/syscall.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// The directories that were visited, in a hash table.
class Visited {
 public:
  Visited() = default;
  ~Visited() { unmap(places_, room_); }
  Visited(const Visited&) = delete;
  Visited& operator=(const Visited&) = delete;

  // 1: it is new; 0: it is known; -1: memory is refused.
  int add(const struct stat& status) {
    if (2 * (count_ + 1) > room_ && !grow()) return -1;
    Place& place = place_of(places_, room_, {status.st_dev, status.st_ino});
    if (place.inode != 0) return 0;
    place = {status.st_dev, status.st_ino};
    ++count_;
    return 1;
  }

 private:
  struct Place {
    uint64_t device;
    uint64_t inode;  // 0: free
  };

  static Place& place_of(Place* places, size_t room, Place wanted) {
    size_t at = (wanted.inode * 0x9e3779b97f4a7c15 ^ wanted.device) % room;
    while (places[at].inode != 0 &&
           (places[at].inode != wanted.inode || places[at].device != wanted.device)) {
      at = (at + 1) % room;
    }
    return places[at];
  }

  bool grow() {
    const size_t room = room_ == 0 ? 256 : 4 * room_;
    void* memory = hook::sys_mmap(room * sizeof(Place), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == nullptr) return false;
    auto* places = static_cast<Place*>(memory);
    for (size_t i = 0; i < room_; ++i) {
      if (places_[i].inode != 0) place_of(places, room, places_[i]) = places_[i];
    }
    unmap(places_, room_);
    places_ = places;
    room_ = room;
    return true;
  }

  static void unmap(Place* places, size_t room) {
    if (places != nullptr) hook::sys_munmap(places, room * sizeof(Place));
  }

  Place* places_ = nullptr;
  size_t room_ = 0;
  size_t count_ = 0;
};

struct Names {
  char before[kPathBytes];    // the working directory at the start
  char text[2 * kPathBytes];  // where the walk is; an absolute path if it changes directories
};
static_assert(sizeof(Names) <= hook::kScratchBytes);

class Walker {
 public:
  Walker(__nftw_func_t nftw, __ftw_func_t ftw, int flags) : nftw_(nftw), ftw_(ftw), flags_(flags) {}

  // What the visitor returned, or -1 with errno.
  int run(const char* path) {
    if (!names_) return failure<int>(ENOMEM);
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') --end;
    if (end >= kPathBytes) return failure<int>(ENAMETOOLONG);
    if (has(FTW_CHDIR) && getcwd(names_->before, sizeof(names_->before)) == nullptr) return -1;
    if (has(FTW_CHDIR) && path[0] != '/') {
      shown_ = strlen(names_->before);
      memcpy(names_->text, names_->before, shown_);
      if (names_->text[shown_ - 1] != '/') names_->text[shown_++] = '/';
    }
    memcpy(names_->text + shown_, path, end);
    end += shown_;
    size_t base = end;
    while (base > shown_ && names_->text[base - 1] != '/') --base;
    if (has(FTW_CHDIR) && base > shown_ && change_to(base) != 0) return -1;
    const int result = see(end, base);
    const int error = errno;
    if (has(FTW_CHDIR) && chdir(names_->before) != 0) return -1;
    errno = error;
    return is_skip(result, FTW_SKIP_SIBLINGS) ? 0 : result;
  }

 private:
  bool has(int flag) const { return (flags_ & flag) != 0; }

  int change_to(size_t end) {
    const char after = names_->text[end];
    names_->text[end] = '\0';
    const int result = chdir(names_->text);
    names_->text[end] = after;
    return result;
  }

  int report(const struct stat& status, int kind, size_t base) {
    const char* path = names_->text + shown_;
    if (ftw_ != nullptr) return ftw_(path, &status, kind == FTW_SLN ? FTW_NS : kind);
    struct FTW place = {.base = static_cast<int>(base - shown_), .level = level_};
    return nftw_(path, &status, kind, &place);
  }

  bool is_skip(int result, int wanted) const { return has(FTW_ACTIONRETVAL) && result == wanted; }

  // The file that the text names.
  int see(size_t end, size_t base) {
    const int result = see_file(end, base);
    return is_skip(result, FTW_SKIP_SUBTREE) ? 0 : result;
  }

  int see_file(size_t end, size_t base) {
    struct stat status = {};
    names_->text[end] = '\0';
    const char* path = names_->text;
    if ((has(FTW_PHYS) ? lstat(path, &status) : stat(path, &status)) != 0) {
      if (errno != EACCES && errno != ENOENT) return -1;
      const bool is_link = !has(FTW_PHYS) && lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
      if (level_ == 0 && !is_link) return -1;
      return report(status, is_link ? FTW_SLN : FTW_NS, base);
    }
    if (level_ == 0) device_ = status.st_dev;
    if (has(FTW_MOUNT) && status.st_dev != device_) return 0;
    if (!S_ISDIR(status.st_mode)) {
      return report(status, S_ISLNK(status.st_mode) ? FTW_SL : FTW_F, base);
    }
    const int is_new = has(FTW_PHYS) ? 1 : visited_.add(status);
    if (is_new < 0) return failure<int>(ENOMEM);
    return is_new == 0 ? 0 : enter(status, end, base);
  }

  int enter(const struct stat& status, size_t end, size_t base) {
    DIR* stream = opendir(names_->text);
    if (stream == nullptr) return errno == EACCES ? report(status, FTW_DNR, base) : -1;
    int result = has(FTW_DEPTH) ? 0 : report(status, FTW_D, base);
    if (result == 0) {
      if (has(FTW_CHDIR)) result = chdir(names_->text);
      if (result == 0) result = see_children(stream, end);
      names_->text[end] = '\0';
      if (is_skip(result, FTW_SKIP_SIBLINGS)) result = 0;
      if (result == 0 && has(FTW_DEPTH)) result = report(status, FTW_DP, base);
      if (has(FTW_CHDIR) && level_ > 0 && result != -1 && change_to(base) != 0) result = -1;
    }
    const int error = errno;
    closedir(stream);
    errno = error;
    return result;
  }

  int see_children(DIR* stream, size_t end) {
    int result = 0;
    ++level_;
    while (result == 0) {
      errno = 0;
      const struct dirent64* entry = readdir64(stream);
      if (entry == nullptr) {
        result = errno == 0 ? 0 : -1;
        break;
      }
      const bool is_dot = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
      if (!is_dot) result = see_child(entry->d_name, end);
    }
    --level_;
    return result;
  }

  int see_child(const char* name, size_t end) {
    const size_t size = strlen(name);
    if (end + size + 2 > sizeof(names_->text)) return failure<int>(ENAMETOOLONG);
    if (names_->text[end - 1] != '/') names_->text[end++] = '/';
    memcpy(names_->text + end, name, size);
    return see(end + size, end);
  }

  const __nftw_func_t nftw_;
  const __ftw_func_t ftw_;
  const int flags_;
  const hook::Scratch<Names> names_;
  size_t shown_ = 0;  // where the path begins that the visitor gets
  int level_ = 0;
  dev_t device_ = 0;
  Visited visited_;
};

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int nftw(const char* path, __nftw_func_t visit, int descriptors, int flags) {
  if (!active() || is_bad(path)) return real_call<nftw>(path, visit, descriptors, flags);
  return Walker(visit, nullptr, flags).run(path);
}

int ftw(const char* path, __ftw_func_t visit, int descriptors) {
  if (!active() || is_bad(path)) return real_call<ftw>(path, visit, descriptors);
  return Walker(nullptr, visit, 0).run(path);
}

}  // extern "C"

asm("names_64 nftw, ftw");
