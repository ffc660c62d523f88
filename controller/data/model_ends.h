// The tokens with which a model ends what it says.
#ifndef COXSWAIN_CONTROLLER_DATA_MODEL_ENDS_H_
#define COXSWAIN_CONTROLLER_DATA_MODEL_ENDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/data/tokenizer/tokenizer.h"

namespace coxswain::data {

// Ascending: eos_token_id of generation_config.json and config.json in the folder `model`, and the
// tokenizer's. Files that are not there, or say nothing of it, add none.
std::vector<int32_t> ModelEnds(const std::string& model, const Tokenizer& tokenizer);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_MODEL_ENDS_H_
