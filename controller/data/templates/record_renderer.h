// Records of one dataset -> segments, by the dataset's format and prompt style.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_RECORD_RENDERER_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_RECORD_RENDERER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/segment.h"
#include "controller/data/templates/template_tokens.h"

namespace coxswain::data {

// InvalidArgument (without path and line): a bad record.
using RecordRenderer = std::function<absl::StatusOr<std::vector<Segment>>(const Record&)>;

// The record given to the renderer must be of dataset.format. Errors as MakeChatRenderer.
absl::StatusOr<RecordRenderer> MakeRecordRenderer(const config::DatasetSpec& dataset,
                                                  const std::string& chat_template,
                                                  const TemplateTokens& tokens);

// Whether `chat_template` decides how the dataset is rendered.
bool UsesChatTemplate(const config::DatasetSpec& dataset);

// The conversation that `chat_template` renders for a record of such a dataset.
std::vector<Message> ConversationOf(const Record& record);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_RECORD_RENDERER_H_
