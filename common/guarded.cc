#include "common/guarded.h"

#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/posix_status.h"

namespace coxswain {

absl::Status Guarded(absl::FunctionRef<absl::Status()> work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    // Not ResourceExhausted, which is a full disk: that is waited out.
    return absl::InternalError("no memory was left for it");
  } catch (const std::system_error& error) {
    if (error.code().category() == std::generic_category() ||
        error.code().category() == std::system_category()) {
      return ErrnoStatus(error.code().value(), "go on with", error.what());
    }
    return absl::InternalError(absl::StrCat("unexpected error: ", error.what()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected error: ", error.what()));
  } catch (...) {
    return absl::InternalError("unexpected error that is no std::exception");
  }
}

}  // namespace coxswain
