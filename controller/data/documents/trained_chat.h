// The chat template of a job and its end tokens, for later users of the model.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TRAINED_CHAT_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TRAINED_CHAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"

namespace coxswain::data {

struct TrainedChat {
  std::string chat_template;  // Jinja text; empty: the model's own, or no conversation is trained
  std::vector<int64_t> ends;  // tokens with which the template ends answers
};

// Errors as Tokenizer::Load and ConversationTemplate::Create. If the files of a dataset with format
// auto are gone, it counts as conversations if the job names a template.
absl::StatusOr<TrainedChat> TrainedChatOf(const config::JobSpec& job);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_TRAINED_CHAT_H_
