// What a model is asked: the prompts of a job as token ids, and how answers become text.
#ifndef COXSWAIN_CONTROLLER_DATA_PROMPTS_H_
#define COXSWAIN_CONTROLLER_DATA_PROMPTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/tokenizer/tokenizer.h"

namespace coxswain::data {

struct PreparedPrompts {
  std::vector<std::string> texts;         // as the job gives them
  std::vector<std::vector<int32_t>> ids;  // at least one token each
  std::vector<int32_t> ends;              // ascending: tokens behind which an answer ends
  std::shared_ptr<const Tokenizer> tokenizer;

  int64_t longest() const;  // tokens; 0: nothing is asked
};

// How a job that trains on `dataset` first is asked. kAuto: its records do not say. Errors as
// FormatOf.
absl::StatusOr<config::AskingStyle> StyleOf(config::DatasetSpec dataset,
                                            config::OnBadRecord on_bad_record);

// Of job.generate: messages, or each prompt in the style of job.generate, else in that of the first
// dataset. What is chat is rendered up to where an answer begins by job.chat_template, else the
// model's own. Where a style is open and neither has a template, a prompt is the text itself. Texts
// follow what the tokenizer puts in front. Ends are eos_token_id of generation_config.json and
// config.json and the tokenizer's. InvalidArgument names the prompt: the template refuses it, or it
// has no token; messages that are no list of {role, content}. Other errors are the tokenizer's and
// template's.
absl::StatusOr<PreparedPrompts> PreparePrompts(const config::JobSpec& job);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PROMPTS_H_
