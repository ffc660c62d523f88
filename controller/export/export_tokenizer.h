// The tokenizer of an artifact.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPORT_TOKENIZER_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPORT_TOKENIZER_H_

#include <string>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// Copies the files of the base's tokenizer into `directory` byte for byte, so that what was trained
// on is what is served; with added tokens those that list tokens are written anew with them.
// FailedPrecondition: the base's tokenizer is not the one that the job began with.
absl::Status WriteTokenizer(const config::JobSpec& job, const plan::Plan& plan,
                            const std::string& directory);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPORT_TOKENIZER_H_
