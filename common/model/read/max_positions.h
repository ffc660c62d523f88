// How many positions a model was made for.
#ifndef COXSWAIN_COMMON_MODEL_READ_MAX_POSITIONS_H_
#define COXSWAIN_COMMON_MODEL_READ_MAX_POSITIONS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace coxswain::model {

// max_position_embeddings of config.json in `directory`, or of its text model. Nothing where the
// file cannot be read or does not say.
std::optional<int64_t> MaxPositions(const std::string& directory);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_MAX_POSITIONS_H_
