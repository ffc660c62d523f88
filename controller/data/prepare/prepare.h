// Data preparation of a job: read -> template -> tokenize -> mask -> token store, cached by
// content.
#ifndef COXSWAIN_CONTROLLER_DATA_PREPARE_PREPARE_H_
#define COXSWAIN_CONTROLLER_DATA_PREPARE_PREPARE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/early_end.h"
#include "controller/data/prepared_data.h"

namespace coxswain::data {

struct PrepareOptions {
  std::string cache_dir;                          // folder of the token stores, by content hash
  int threads = 0;                                // 0: all cores
  std::function<void(double fraction)> progress;  // may be null; called by the caller's thread
  Cancelled cancelled;                            // polled per batch, by the caller's thread
};

// Files are streamed: memory does not grow with their size. InvalidArgument names path:line of the
// first bad record, or says that no trainable token is left and why.
absl::StatusOr<PreparedData> PrepareData(const config::JobSpec& job, const PrepareOptions& options);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREPARE_PREPARE_H_
