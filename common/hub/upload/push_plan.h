// What a push changes in a repository.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_PUSH_PLAN_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_PUSH_PLAN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"
#include "common/hub/upload/push_file.h"

namespace coxswain::hub {

struct PushChange {
  PushFile* file = nullptr;
  bool in_lfs = false;
  std::string digest;  // of the content: SHA-256 in LFS, else git's SHA-1
};

struct PushPlan {
  std::vector<PushChange> changes;   // files that the branch has not, or with another content
  std::vector<std::string> ignored;  // paths that the repository's .gitignore leaves out
};

// Compares `files` with the branch `repository.revision`, by the Hub's own word; reads all of them,
// but those whose digest is known. `card`: null, or one of `files` that is left out where the
// repository has a file of its path. Errors as PushFailureOf and PushFile; DataLoss: the answer
// does not tell of every file. Source: huggingface_hub, _fetch_upload_modes.
absl::StatusOr<PushPlan> PlanPush(const Settings& settings, const Repository& repository,
                                  std::vector<PushFile>* files, const PushFile* card,
                                  const std::function<bool()>& cancelled);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_PUSH_PLAN_H_
