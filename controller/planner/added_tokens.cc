#include "controller/planner/added_tokens.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace coxswain::planner {

absl::Status GrowVocabulary(const data::PreparedData& data, model::ModelConfig* model) {
  if (data.added_tokens == 0) return absl::OkStatus();
  const int64_t known = data.vocab_size - data.added_tokens, rows = model->vocab_size;
  if (known > rows) {
    return absl::InvalidArgumentError(absl::StrCat("base_model.added_tokens: the tokenizer has ",
                                                   known,
                                                   " tokens and config.json says vocab_size ", rows,
                                                   "; resize the embedding of the base first"));
  }
  model->added_tokens = {.count = data.added_tokens, .known = known, .base_rows = rows};
  model->vocab_size = std::max(rows, data.vocab_size);
  return absl::OkStatus();
}

}  // namespace coxswain::planner
