// What self-verification looks at: every trained tensor by itself. A gradient of zero says that a
// tensor does not train, but where mathematics says zero:
//   zero factor       An adapter is a product of two factors, one of which begins at zero: B, of an
//                     embedding A. While it is zero the other's gradient is: dA = B^T dy x^T.
//                     Decided by pair: A waits for its own B.
//   attention         q and k, with their adapters, biases and norms, act through the weights that
//                     a token gives to those before it. Where these are all the same token, every
//                     weighting has the same outcome. A batch in which each target sees such tokens
//                     alone (the first of its document is one) says nothing about q and k.
//   key bias          adds the same to all scores of a query that sees keys unrotated, which
//                     softmax takes away; rotation leaves little of it. Its gradient may be zero:
//                     it is judged by its movement alone, by the gradient that it has.
//   rows without tokens, of an embedding or its A, have no gradient. A batch has a token, so the
//                     tensor has one; that only a row of it moves is counted (verify.cc).
// Nothing else may be zero: norms, biases, DoRA's magnitudes and a tied embedding have a gradient
// whenever a target is reached. A weight of zeros that trains holds back only what lies below it,
// and only in the first step.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFIED_TENSORS_H_
#define COXSWAIN_WORKER_ENGINE_VERIFIED_TENSORS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::engine {

struct VerifiedTensor {
  std::string name;      // in the plan's table: that of Hugging Face or PEFT
  size_t parameter = 0;  // index into the plan's table
  // Index among the verified tensors: while that one is zero the gradient of this one must be.
  std::optional<size_t> zero_factor;
  bool needs_gradient = true;    // false: a key bias
  bool needs_attention = false;  // of q and k: a gradient only where a target sees two tokens
};

// Every trainable parameter once: by the plan's group; inside it factors that do not begin at zero
// and whole tensors, factors that do, and magnitudes, each in the order of the table.
std::vector<VerifiedTensor> MakeVerifiedTensors(const plan::Plan& plan);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFIED_TENSORS_H_
