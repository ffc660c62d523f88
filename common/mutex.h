// A mutex, the lock of it and the condition that waits with it, as clang's thread-safety analysis
// understands them. A member says by ABSL_GUARDED_BY(mu_) which mutex it is read and written
// under, a function by ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) which one its caller holds, and clang
// with -Wthread-safety refuses code that does not keep to it. Other compilers see no annotation.
//
// They are the standard library's underneath, not absl::Mutex: the distribution's Abseil is not
// instrumented, so ThreadSanitizer does not see its locks and reports races that are none.
#ifndef COXSWAIN_COMMON_MUTEX_H_
#define COXSWAIN_COMMON_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace coxswain {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // For a function that lets go of its caller's lock for a while; else take a MutexLock.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mu_;
};

// Holds a mutex while it lives, but between Unlock and Lock.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : lock_(mu.mu_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// Every wait lets go of the lock, which is held again when it returns. The analysis does not see
// that a predicate runs under the lock: it says so itself.
//
//   changed_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopped_; });
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  template <typename Predicate>
  void Wait(MutexLock& lock, Predicate until) {
    changed_.wait(lock.lock_, std::move(until));
  }
  // What `until` says in the end: false only after `timeout`.
  template <typename Rep, typename Period, typename Predicate>
  bool WaitFor(MutexLock& lock, std::chrono::duration<Rep, Period> timeout, Predicate until) {
    return changed_.wait_for(lock.lock_, timeout, std::move(until));
  }
  // Until the next notification, `timeout`, or for no reason.
  template <typename Rep, typename Period>
  void WaitFor(MutexLock& lock, std::chrono::duration<Rep, Period> timeout) {
    changed_.wait_for(lock.lock_, timeout);
  }

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_MUTEX_H_
