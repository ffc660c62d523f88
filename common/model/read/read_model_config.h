// The architecture of a model, from a Hugging Face config.json of either dialect.
#ifndef COXSWAIN_COMMON_MODEL_READ_READ_MODEL_CONFIG_H_
#define COXSWAIN_COMMON_MODEL_READ_READ_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/model_config.h"

namespace coxswain::model {

// Reads `directory`/config.json. InvalidArgument names the file and key; Unimplemented names the
// architecture and those supported; NotFound names the missing file. Adds to `warnings`, unless
// null, a line that names the keys which the family neither reads nor knows to change nothing.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory,
                                            std::vector<std::string>* warnings = nullptr);

// How many positions a model was made for.

// max_position_embeddings of config.json in `directory`, or of its text model. Nothing where the
// file cannot be read or does not say.
std::optional<int64_t> MaxPositions(const std::string& directory);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_READ_MODEL_CONFIG_H_
