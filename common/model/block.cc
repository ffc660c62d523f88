#include "common/model/block.h"

namespace coxswain::model {

Row BlockInput(int64_t layer) { return {layer, "residual_in"}; }

Row BlockOutput(const ModelConfig& config, int64_t layer) {
  return layer + 1 == config.num_layers ? kFinalResidual : BlockInput(layer + 1);
}

}  // namespace coxswain::model
