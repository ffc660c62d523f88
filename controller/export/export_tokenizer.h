// The tokenizer of an artifact.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPORT_TOKENIZER_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPORT_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// What a job taught beside the weights: the template that its conversations were rendered with, and
// the tokens that its answers end with.
struct TrainedFormat {
  std::string chat_template;  // Jinja text; empty: the base's own, or no conversation was trained
  std::vector<int64_t> ends;  // beside those of the base
};

// chat_template.jinja where the job rendered with another template than the base's, and
// generation_config.json where it taught another end: eos_token_id lists it behind the base's own.
absl::Status WriteTrainedFormat(const TrainedFormat& format, const plan::Plan& plan,
                                const std::string& directory);

// Copies the files of the base's tokenizer into `directory` byte for byte, so that what was trained
// on is what is served; with added tokens those that list tokens are written anew with them.
// Named templates (additional_chat_templates/) go along. FailedPrecondition: the base's tokenizer
// is not the one that the job began with.
absl::Status WriteTokenizer(const config::JobSpec& job, const plan::Plan& plan,
                            const std::string& directory);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPORT_TOKENIZER_H_
