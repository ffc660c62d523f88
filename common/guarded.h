// Exceptions as statuses, where code of ours or of a library may throw.
#ifndef COXSWAIN_COMMON_GUARDED_H_
#define COXSWAIN_COMMON_GUARDED_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace coxswain {

// What `work` returns, or what it threw as a status: Internal where memory ran out, ErrnoStatus of
// the error of a system call, else Internal with the exception's own words. A thread's function is
// run by this, since an exception that leaves a thread ends the process, with all its jobs.
absl::Status Guarded(absl::FunctionRef<absl::Status()> work);

// A function that calls `work`, which writes `*result`, a Status or StatusOr; what it threw is
// written there in its place.
template <typename Result, typename Work>
std::function<void()> GuardedInto(std::shared_ptr<Result> result, Work work) {
  return [result = std::move(result), work = std::move(work)]() mutable {
    const absl::Status thrown = Guarded([&work] {
      work();
      return absl::OkStatus();
    });
    if (!thrown.ok()) *result = thrown;
  };
}

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_GUARDED_H_
