// Compares a named chat template with the one the model came with.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATE_CHECK_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATE_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/tokenizer/tokenizer.h"

namespace coxswain::data {

// Warnings, one per dataset at most, when the model's own template renders some of the dataset's
// first 100 records otherwise than job.chat_template, or is none that is known here and so was not
// compared (there is no Jinja engine: known templates are told by their hash). Bad records are
// passed over.
absl::StatusOr<std::vector<std::string>> CheckTemplates(const config::JobSpec& job,
                                                        const Tokenizer& tokenizer);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATE_CHECK_H_
