// Compares the chat template of a job with that of its model.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TEMPLATE_CHECK_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TEMPLATE_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {

// At most two warnings per dataset, from its first 100 records: the template leaves out tools, or
// the model's own template renders some records differently, with the place of the first
// difference. Bad records are skipped. No dataset may have the format kAuto.
absl::StatusOr<std::vector<std::string>> CheckTemplates(const config::JobSpec& job,
                                                        const Tokenizer& tokenizer);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TEMPLATE_CHECK_H_
