// The rotation of a config.json.
#ifndef COXSWAIN_COMMON_MODEL_READ_ROPE_H_
#define COXSWAIN_COMMON_MODEL_READ_ROPE_H_

#include "common/model/config_keys.h"
#include "common/model/model_config.h"

namespace coxswain::model {

// transformers 4 writes rope_theta and rope_scaling, transformers 5 rope_parameters; a file may
// hold either. Fails kinds of scaling that are not known, and what they lack.
// Source: transformers modeling_rope_utils.
Rope ReadRope(ConfigKeys& keys, double default_theta);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_ROPE_H_
