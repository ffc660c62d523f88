// The border between code that throws (kernels, allocation) and code that returns absl::Status.
#ifndef COXSWAIN_WORKER_ENGINE_COMMANDS_EXECUTOR_H_
#define COXSWAIN_WORKER_ENGINE_COMMANDS_EXECUTOR_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace coxswain::engine {

// Runs `operation` and turns an exception into a status: std::bad_alloc -> ResourceExhausted,
// std::invalid_argument -> InvalidArgument, kernels::UnusableDevice -> FailedPrecondition, any
// other -> Internal, with the payload kDeviceLost after a sticky DeviceError. The message starts
// with `*doing`, which is read when the exception arrives. This is the only catch of the engine.
absl::Status RunGuarded(const std::string* doing, const std::function<absl::Status()>& operation);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_COMMANDS_EXECUTOR_H_
