#include "worker/engine/commands/executor.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "kernels/device.h"
#include "worker/engine/commands/commands.h"

namespace coxswain::engine {

absl::Status RunGuarded(const std::string* doing, const std::function<absl::Status()>& operation) {
  try {
    return operation();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(*doing, ": out of memory"));
  } catch (const std::invalid_argument& error) {
    return absl::InvalidArgumentError(absl::StrCat(*doing, ": ", error.what()));
  } catch (const kernels::UnusableDevice& error) {
    return absl::FailedPreconditionError(absl::StrCat(*doing, ": ", error.what()));
  } catch (const kernels::DeviceError& error) {
    absl::Status status = absl::InternalError(absl::StrCat(*doing, ": ", error.what()));
    if (error.sticky()) status.SetPayload(kDeviceLost, absl::Cord());
    return status;
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(*doing, ": ", error.what()));
  }
}

}  // namespace coxswain::engine
