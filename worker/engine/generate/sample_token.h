// Draws one token from its logits, on the host.
#ifndef COXSWAIN_WORKER_ENGINE_GENERATE_SAMPLE_TOKEN_H_
#define COXSWAIN_WORKER_ENGINE_GENERATE_SAMPLE_TOKEN_H_

#include <cstdint>
#include <vector>

#include "worker/engine/commands/commands.h"

namespace coxswain::engine {

// Replaces each logit by cap tanh(logit / cap); cap 0: unchanged. Source: transformers
// final_logit_softcapping.
void SoftcapLogits(double cap, std::vector<float>* logits);

// The place of a draw in a generation. It fixes the random numbers, whatever other texts are
// generated.
struct DrawPlace {
  uint32_t text = 0;      // index among the prompts
  uint32_t position = 0;  // of the token
};

// Draws from the softmax of logits / temperature, limited to the top_k likeliest tokens, then to
// the likeliest of these that reach top_p together. Tokens are ordered by logit, equal ones by id.
// Sums are doubles in that order. `logits` must not be empty and must hold no NaN; temperature > 0.
// Source: transformers TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, in this order;
// Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020.
int32_t SampleToken(const std::vector<float>& logits, const Sampling& sampling, DrawPlace place);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_GENERATE_SAMPLE_TOKEN_H_
