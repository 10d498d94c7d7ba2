// Result: a value or an error.
//
// Errors are sentences for users: which thing, what is wrong with the actual values, what to do
// next. The layer that detects the error states the fact; each layer that knows more prefixes its
// name:
//
//   return fail(Errc::kCorrupt, "record at byte {} claims {} bytes, but the file ends at {}", ...);
//   ASSIGN_OR_RETURN(const Record record, reader.read_at(offset).within(path));
//
// which prints "train/00007.tfrecord: record at byte ...". Nothing here throws.
#pragma once

#include <fmt/core.h>

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace millrace {

// Classes of errors for programs. The message is for people.
enum class Errc {
  kInvalidArgument,  // the caller or the user asked for something invalid
  kNotFound,
  kAlreadyExists,
  kPermission,
  kCorrupt,      // bytes that are not what they claim to be
  kUnsupported,  // a version, a part or a feature that this build or this machine lacks
  kExhausted,    // no space, descriptors or memory left
  kIo,           // the operating system failed for another reason
  kTimeout,
  kCancelled,
};

class [[nodiscard]] Error {
 public:
  Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

  Errc code() const { return code_; }
  const std::string& message() const { return message_; }

  // Prefixes the message: "thing: message".
  Error within(std::string_view thing) &&;

 private:
  Errc code_;
  std::string message_;
};

template <typename... Args>
Error fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// "cannot open: no such file or directory", with what to do about it, if known. `os_error` is an
// errno value; `doing` says what was attempted.
Error fail_os(int os_error, std::string_view doing);

// The text for an errno value, in lower case, without what to do.
std::string describe_os_error(int os_error);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok()
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok()
  const Error& error() const& {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    assert(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

  Result within(std::string_view thing) && {
    if (ok()) return std::move(*this);
    return std::move(*this).error().within(thing);
  }

 private:
  T& value() {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const {
    assert(ok());
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

// A Result without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: !ok()
  const Error& error() const& {
    assert(!ok());
    return *error_;
  }
  Error&& error() && {
    assert(!ok());
    return std::move(*error_);
  }

  Result within(std::string_view thing) && {
    if (ok()) return {};
    return std::move(*error_).within(thing);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace millrace

#define MILLRACE_JOIN_(a, b) a##b
#define MILLRACE_JOIN(a, b) MILLRACE_JOIN_(a, b)

// __COUNTER__, not __LINE__: an expression may contain a lambda that uses these macros too.
#define RETURN_IF_ERROR(expression) \
  RETURN_IF_ERROR_(MILLRACE_JOIN(status_, __COUNTER__), expression)

#define RETURN_IF_ERROR_(status, expression)                   \
  do {                                                         \
    if (auto status = (expression); !status.ok()) [[unlikely]] \
      return std::move(status).error();                        \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_(MILLRACE_JOIN(result_, __COUNTER__), declaration, expression)

#define ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                              \
  if (!result.ok()) [[unlikely]]                           \
    return std::move(result).error();                      \
  declaration = *std::move(result)
