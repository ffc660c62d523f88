// The tokens with which a model ends its answers.
#ifndef COXSWAIN_CONTROLLER_DATA_MODEL_ENDS_H_
#define COXSWAIN_CONTROLLER_DATA_MODEL_ENDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {

// Ascending: eos_token_id of generation_config.json and of config.json in the folder `model`, and
// the tokenizer's EOS. An absent file or key adds none.
std::vector<int32_t> ModelEnds(const std::string& model, const Tokenizer& tokenizer);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_MODEL_ENDS_H_
