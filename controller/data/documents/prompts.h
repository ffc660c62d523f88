// The prompts of a job as token ids, and the tokenizer that turns answers into text.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_PROMPTS_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_PROMPTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {

struct PreparedPrompts {
  std::vector<std::string> texts;         // as in the job
  std::vector<std::vector<int32_t>> ids;  // at least one token each
  std::vector<int32_t> ends;              // ascending: tokens that end an answer
  std::shared_ptr<const Tokenizer> tokenizer;

  int64_t longest() const;  // tokens of the longest prompt; 0: there is none
};

// The style of prompts for a job whose first dataset is `dataset`. kAuto: its records do not decide
// it. Errors as FormatOf.
absl::StatusOr<config::AskingStyle> StyleOf(config::DatasetSpec dataset,
                                            config::OnBadRecord on_bad_record);

// Prepares the prompts of job.generate: its messages, or its prompts in its style, by default the
// style of the first dataset. Chat prompts are rendered up to the beginning of the answer with
// job.chat_template, else with the model's own template. If the style is open and there is no
// template, a prompt is the text itself. The tokenizer's front tokens stand before texts. `ends`
// are those of ModelEnds. InvalidArgument names the prompt: the template refuses it, or it has no
// token. InvalidArgument too: messages are no list of {role, content}. Other errors come from
// tokenizer and template.
absl::StatusOr<PreparedPrompts> PreparePrompts(const config::JobSpec& job);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_PROMPTS_H_
