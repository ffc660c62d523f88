// Renders records of one dataset into documents of segments, by the dataset's format and prompt
// style.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_RECORD_RENDERER_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_RECORD_RENDERER_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/chat_renderer.h"
#include "controller/text/templates/segment.h"

namespace coxswain::data {

// Of a pair: its chosen side, then its rejected one. InvalidArgument (without path and line): a bad
// record.
using RecordRenderer = std::function<absl::StatusOr<std::vector<RenderedDocument>>(const Record&)>;

// A renderer for records of dataset.format; tokenized records need none. Errors as
// MakeChatRenderer; also when documents end with EOS and the tokenizer has none.
absl::StatusOr<RecordRenderer> MakeRecordRenderer(const config::JobSpec& job,
                                                  const config::DatasetSpec& dataset,
                                                  const TemplateTokens& tokens);

// True when job.chat_template decides how such records are rendered.
bool UsesChatTemplate(const config::DatasetSpec& dataset);

// True when that is so for records whose parts are messages, and others are text.
bool MayUseChatTemplate(const config::DatasetSpec& dataset);

// The conversation that the chat template renders for a record. Answers in its history are trained
// only with `train_history`.
ChatRecord ConversationOf(const Record& record, bool train_history = false);

// True when special tokens in the text of a record are tokens. The key special_tokens decides; by
// default they are tokens in rendered text, and text in messages.
bool SpecialTokensCount(const config::DatasetSpec& dataset, bool messages);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_RECORD_RENDERER_H_
