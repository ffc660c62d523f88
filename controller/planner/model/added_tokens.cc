#include "controller/planner/model/added_tokens.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace coxswain::planner {

namespace {

absl::Status CheckIds(const data::PreparedData& data, int64_t rows) {
  const int64_t largest = std::max(data.train_stats.largest_id, data.eval_stats.largest_id);
  if (largest < rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the data holds token ", largest, ", and the embedding has ", rows,
      " rows (vocab_size of config.json): the tokenizer has ", data.vocab_size,
      " tokens; resize the base's embedding, or use the tokenizer that belongs to it"));
}

}  // namespace

absl::Status GrowVocabulary(const data::PreparedData& data, model::ModelConfig* model) {
  if (model->labels > 0 && data.pad_token >= 0) model->pad_token = data.pad_token;
  if (data.added_tokens == 0) return CheckIds(data, model->vocab_size);
  const int64_t known = data.vocab_size - data.added_tokens, rows = model->vocab_size;
  if (known > rows) {
    return absl::InvalidArgumentError(absl::StrCat("base_model.added_tokens: the tokenizer has ",
                                                   known,
                                                   " tokens and config.json says vocab_size ", rows,
                                                   "; resize the embedding of the base first"));
  }
  model->added_tokens = {.count = data.added_tokens, .known = known, .base_rows = rows};
  model->vocab_size = std::max(rows, data.vocab_size);
  return CheckIds(data, model->vocab_size);
}

}  // namespace coxswain::planner
