// The repository and branch to which is pushed.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_PUSH_TARGET_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_PUSH_TARGET_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"

namespace coxswain::hub {

// Makes what is missing of repository and branch, and returns the branch's commit. Errors as
// PushFailureOf; FailedPrecondition: `is_private`, and the repository is public. Source:
// huggingface_hub, create_repo and create_branch.
absl::StatusOr<std::string> EnsureBranch(const Settings& settings, const Repository& repository,
                                         bool is_private, const std::function<bool()>& cancelled);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_PUSH_TARGET_H_
