#include "base/result.h"

#include <cctype>
#include <cerrno>
#include <cstring>

namespace millrace {

Error Error::within(std::string_view thing) && {
  message_.insert(0, ": ");
  message_.insert(0, thing);
  return std::move(*this);
}

std::string describe_os_error(int os_error) {
  char buffer[256];
  // The GNU variant, which returns the text and is thread-safe.
  std::string text = strerror_r(os_error, buffer, sizeof(buffer));
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

namespace {

struct OsErrorMeaning {
  int os_error;
  Errc code;
  std::string_view next_step;  // empty if the text of the system is enough
};

constexpr OsErrorMeaning kOsErrors[] = {
    {ENOENT, Errc::kNotFound, ""},
    {ENOTDIR, Errc::kNotFound, ""},
    {EEXIST, Errc::kAlreadyExists, ""},
    {EACCES, Errc::kPermission, ""},
    {EPERM, Errc::kPermission, ""},
    {EROFS, Errc::kPermission, "choose another directory, or remount it writable"},
    {EINVAL, Errc::kInvalidArgument, ""},
    {EISDIR, Errc::kInvalidArgument, ""},
    {ENAMETOOLONG, Errc::kInvalidArgument, ""},
    {ELOOP, Errc::kInvalidArgument, ""},
    {ENOSYS, Errc::kUnsupported, ""},
    {EOPNOTSUPP, Errc::kUnsupported, ""},
    {ENOSPC, Errc::kExhausted, "free some space (df -h, df -i) or choose another directory"},
    {EDQUOT, Errc::kExhausted,
     "your quota is used up; free some space or choose another directory"},
    {EMFILE, Errc::kExhausted, "raise the limit on open files: ulimit -n $(ulimit -Hn)"},
    {ENFILE, Errc::kExhausted, "raise the system's limit on open files: sysctl fs.file-max"},
    {EFBIG, Errc::kExhausted, "if ulimit -f limits the size of files, raise it"},
    {ENOMEM, Errc::kExhausted, ""},
    {ETIMEDOUT, Errc::kTimeout, ""},
};

}  // namespace

Error fail_os(int os_error, std::string_view doing) {
  for (const OsErrorMeaning& meaning : kOsErrors) {
    if (meaning.os_error != os_error) continue;
    if (meaning.next_step.empty()) {
      return fail(meaning.code, "{}: {}", doing, describe_os_error(os_error));
    }
    return fail(meaning.code, "{}: {}; {}", doing, describe_os_error(os_error), meaning.next_step);
  }
  return fail(Errc::kIo, "{}: {}", doing, describe_os_error(os_error));
}

}  // namespace millrace
