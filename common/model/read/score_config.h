// What a model's folder says of a head of scores.
#ifndef COXSWAIN_COMMON_MODEL_READ_SCORE_CONFIG_H_
#define COXSWAIN_COMMON_MODEL_READ_SCORE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::model {

struct ScoreConfig {
  int64_t labels = 0;                // of a ...ForSequenceClassification; 0: of another class
  std::vector<std::string> names;    // of id2label, by number; empty: LABEL_0 and so on
  std::optional<int64_t> pad_token;  // the padding, else the end of texts
};

// Of config.json in `directory`. Source: transformers configuration_utils (num_labels, id2label: 2
// without). Errors as ReadModelConfig.
absl::StatusOr<ScoreConfig> ReadScoreConfig(const std::string& directory);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_SCORE_CONFIG_H_
