// Where the Hub wants the contents of large files.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_LFS_BATCH_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_LFS_BATCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"

namespace coxswain::hub {

struct LfsObject {
  std::string oid;  // SHA-256, 64 digits
  int64_t bytes = 0;
};

// What is to be done with one object.
struct LfsAction {
  bool there = false;                       // the Hub has it: nothing is to be done
  std::string upload_url;                   // takes the content, or in parts the list of them
  int64_t part_bytes = 0;                   // 0: it is sent as a whole
  std::vector<std::string> part_urls = {};  // as many as the object has parts
  std::string verify_url = {};              // is told of it at the end; empty: nobody is
};

// One action for each of `objects`, in their order. Errors as PushFailureOf; DataLoss: the answer
// is none of Git LFS, or leads from https to http. Source: Git LFS, "Batch API"; huggingface_hub,
// lfs.py, for transfers in parts.
absl::StatusOr<std::vector<LfsAction>> AskBatch(const Settings& settings,
                                                const Repository& repository,
                                                const std::vector<LfsObject>& objects,
                                                const std::function<bool()>& cancelled);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_LFS_BATCH_H_
