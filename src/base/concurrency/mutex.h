// Mutex and MutexLock: std::mutex and std::unique_lock with annotations, from which clang checks
// that what a mutex protects is used only under it (-Wthread-safety). g++ ignores the annotations.
//
//   Mutex mutex_;
//   int count_ GUARDED_BY(mutex_) = 0;      // used only while mutex_ is held
//   void add_locked() REQUIRES(mutex_);     // called only while mutex_ is held
//
//   MutexLock lock(mutex_);
//   changed_.wait(lock, [&]() REQUIRES(mutex_) { return count_ > 0; });
//
// clang looks at one function at a time: a lambda that uses what a mutex protects says REQUIRES
// itself, and a function cannot unlock a lock of its caller. Own types, because libstdc++ does not
// annotate std::mutex. Derived ones, so that std::condition_variable takes a MutexLock.
#pragma once

#include <mutex>

#ifdef __clang__
#define MILLRACE_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define MILLRACE_THREAD_SAFETY(attribute)
#endif

#define GUARDED_BY(mutex) MILLRACE_THREAD_SAFETY(guarded_by(mutex))
#define REQUIRES(...) MILLRACE_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) MILLRACE_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) MILLRACE_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define RELEASE(...) MILLRACE_THREAD_SAFETY(release_capability(__VA_ARGS__))
// For what clang cannot follow, with a comment that says why it is right.
#define NO_THREAD_SAFETY_ANALYSIS MILLRACE_THREAD_SAFETY(no_thread_safety_analysis)

namespace millrace {

class MILLRACE_THREAD_SAFETY(capability("mutex")) Mutex : public std::mutex {
 public:
  void lock() ACQUIRE() { std::mutex::lock(); }
  void unlock() RELEASE() { std::mutex::unlock(); }
};

// Holds a mutex until the end of the scope, or until unlock().
class MILLRACE_THREAD_SAFETY(scoped_lockable) MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : unique_lock(mutex) {}
  ~MutexLock() RELEASE() = default;

  void lock() ACQUIRE() { unique_lock::lock(); }
  void unlock() RELEASE() { unique_lock::unlock(); }
};

}  // namespace millrace
