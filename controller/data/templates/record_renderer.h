// Records of one dataset -> documents of segments, by the dataset's format and prompt style.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_RECORD_RENDERER_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_RECORD_RENDERER_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/chat_renderer.h"
#include "controller/data/templates/template_tokens.h"

namespace coxswain::data {

// InvalidArgument (without path and line): a bad record.
using RecordRenderer = std::function<absl::StatusOr<std::vector<RenderedDocument>>(const Record&)>;

// Renders records of dataset.format, tokenized ones apart, which need no rendering. Errors as
// MakeChatRenderer; a tokenizer without EOS, where documents end with it.
absl::StatusOr<RecordRenderer> MakeRecordRenderer(const config::JobSpec& job,
                                                  const config::DatasetSpec& dataset,
                                                  const TemplateTokens& tokens);

// Whether job.chat_template decides how such records are rendered.
bool UsesChatTemplate(const config::DatasetSpec& dataset);

// The conversation that the chat template renders for a record of such a dataset. The answers of
// its history are not trained, but for `train_history`.
ChatRecord ConversationOf(const Record& record, bool train_history = false);

// Whether special tokens that stand in the text of a record are tokens: what special_tokens says,
// and by default those of text that is rendered already, not those of messages.
bool SpecialTokensCount(const config::DatasetSpec& dataset, bool messages);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_RECORD_RENDERER_H_
