// Shows how the chat template of a job renders a sample.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TEMPLATE_SAMPLE_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TEMPLATE_SAMPLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

// The text of the template that job.chat_template names for job.model_path, its rendering of a
// conversation with two questions, and the rule that found the targets. Targets are green or,
// without `color`, between ⟦ and ⟧. Errors as ConversationTemplate::Create and FindTargets.
absl::StatusOr<std::string> TemplateSample(const config::JobSpec& job, bool color);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TEMPLATE_SAMPLE_H_
