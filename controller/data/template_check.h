// Compares the chat template of a job with the one the model came with.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATE_CHECK_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATE_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/tokenizer/tokenizer.h"

namespace coxswain::data {

// Warnings, two per dataset at most: when the template leaves out the tools of some of the
// dataset's first 100 records, and when the model's own template renders some of them otherwise
// than the job's, with the place where they part. Bad records are passed over. No dataset's format
// is kAuto.
absl::StatusOr<std::vector<std::string>> CheckTemplates(const config::JobSpec& job,
                                                        const Tokenizer& tokenizer);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATE_CHECK_H_
