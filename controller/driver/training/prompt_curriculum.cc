#include "controller/driver/training/prompt_curriculum.h"

#include <utility>

namespace coxswain::driver {

Questions QuestionsOf(const config::JobSpec& job, data::PreparedPrompts prompts) {
  Questions questions;
  questions.texts = std::move(prompts.texts);
  questions.ids = std::move(prompts.ids);
  questions.ends = std::move(prompts.ends);
  questions.most_tokens = job.generate.max_new_tokens;
  questions.sampling.set_temperature(job.generate.temperature);
  questions.sampling.set_top_k(job.generate.top_k);
  questions.sampling.set_top_p(job.generate.top_p);
  questions.sampling.set_seed(job.generate.seed);
  questions.decode = [tokenizer = std::move(prompts.tokenizer)](std::span<const int32_t> ids) {
    return tokenizer->Decode(ids, /*skip_special=*/true);
  };
  return questions;
}

}  // namespace coxswain::driver
