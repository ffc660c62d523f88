// What the config.json of most decoders has in common.
#ifndef COXSWAIN_COMMON_MODEL_READ_READ_DECODER_H_
#define COXSWAIN_COMMON_MODEL_READ_READ_DECODER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/model/config_keys.h"
#include "common/model/model_config.h"

namespace coxswain::model {

// Extents, epsilon, tying, activation. Fails an activation that is not known, dropout, and weights
// quantised otherwise than by bitsandbytes or to FP8 in blocks. False: the extents make no model,
// nothing more is to be read. `blocks`: a further quant_method, of experts in blocks with scales,
// which are read as what they stand for.
bool ReadDecoder(ConfigKeys& keys, bool tied_by_default, ModelConfig* config,
                 const std::string& blocks = "");

// `sliding_window`, or 4096 where it is absent; 0: it is null.
int64_t ReadWindow(ConfigKeys& keys);

// Windows of the layers, 0 for none: those that `layer_types` calls sliding, or without that list
// those that `slides`. `window` 0: a sliding layer is an error.
std::vector<int64_t> ReadWindows(ConfigKeys& keys, int64_t layers, int64_t window,
                                 const std::function<bool(int64_t layer)>& slides);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_READ_DECODER_H_
