// The draw of one token from its logits, on the host.
#ifndef COXSWAIN_WORKER_ENGINE_SAMPLE_TOKEN_H_
#define COXSWAIN_WORKER_ENGINE_SAMPLE_TOKEN_H_

#include <cstdint>
#include <vector>

#include "worker/engine/commands.h"

namespace coxswain::engine {

// cap tanh(logit / cap) of each; cap 0: as they are. Source: transformers final_logit_softcapping.
void SoftcapLogits(double cap, std::vector<float>* logits);

// Which draw of a generation it is: the same numbers whatever else is generated beside it.
struct DrawPlace {
  uint32_t text = 0;      // index among the prompts
  uint32_t position = 0;  // of the token
};

// Draws from the softmax of logits / temperature, of which the top_k likeliest are left, then of
// these the likeliest whose probabilities reach top_p together. Tokens are ordered by logit, equal
// ones by id. The sums are doubles in that order. `logits` is not empty and holds no NaN;
// temperature > 0.
// Source: transformers TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, in this order;
// Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020.
int32_t SampleToken(const std::vector<float>& logits, const Sampling& sampling, DrawPlace place);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SAMPLE_TOKEN_H_
