// The rotation of a config.json.
#ifndef COXSWAIN_COMMON_MODEL_READ_READ_ROPE_H_
#define COXSWAIN_COMMON_MODEL_READ_READ_ROPE_H_

#include <cstdint>

#include "common/model/config_keys.h"
#include "common/model/model_config.h"

namespace coxswain::model {

// What a family has of its own.
struct RopeDefaults {
  double theta = 10000.0;
  double partial = 0;  // partial_rotary_factor where the file has none; 0: only 1 is supported
};

// transformers 4 writes rope_theta and rope_scaling, transformers 5 rope_parameters; a file may
// hold either. Fails kinds of scaling that are not known, and what they lack.
// Source: transformers modeling_rope_utils.
Rope ReadRope(ConfigKeys& keys, double default_theta);
// `head_dim`: of which partial_rotary_factor is a part.
Rope ReadRope(ConfigKeys& keys, const RopeDefaults& defaults, int64_t head_dim);

// Two rotations: that of the layers that see everything, and that of those with a window.
// transformers 5 writes rope_parameters per kind of layer, transformers 4 the keys of the first
// and rope_local_base_freq.
struct LayerRopes {
  Rope full, sliding;
};
LayerRopes ReadLayerRopes(ConfigKeys& keys, double full_theta, double sliding_theta);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_READ_READ_ROPE_H_
