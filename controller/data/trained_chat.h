// What a job's conversations are rendered with, for whoever uses the model afterwards.
#ifndef COXSWAIN_CONTROLLER_DATA_TRAINED_CHAT_H_
#define COXSWAIN_CONTROLLER_DATA_TRAINED_CHAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

struct TrainedChat {
  std::string chat_template;  // Jinja text; empty: the model's own, or no conversation is trained
  std::vector<int64_t> ends;  // tokens that the template ends answers with
};

// Errors as Tokenizer::Load and ConversationTemplate::Create. A dataset of format auto whose files
// are gone counts as conversations where the job names a template.
absl::StatusOr<TrainedChat> TrainedChatOf(const config::JobSpec& job);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TRAINED_CHAT_H_
