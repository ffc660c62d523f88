// The tensors of self-verification: every trained tensor by itself. A gradient of zero means that a
// tensor does not train, except where it must be zero mathematically:
//   zero factor       An adapter is a product of two factors. One of them begins at zero: B, or A
//   for
//                     an embedding. While it is zero, the gradient of the other factor is zero:
//                     dA = B^T dy x^T. The rule holds per pair: A waits for its own B.
//   attention         q and k, with their adapters, biases and norms, only change how a token
//                     weights the tokens up to itself. If these are all the same token, every
//                     weighting gives the same result. The first token of a document sees only
//                     itself. A batch in which every target sees one kind of token says nothing
//                     about q and k.
//   key bias          Without rotation of the keys it adds the same value to all scores of a query,
//                     and softmax removes it. Rotation leaves little of it. Its gradient may be
//                     zero, so only its movement is checked, by the gradient that it has.
//   rows without      Rows of an embedding or its A whose token is not in the batch have no
//   gradient. tokens            The tensor has one, because a batch has a token. verify.cc expects
//   only one row
//                     to move.
// Nothing else may be zero: norms, biases, DoRA's magnitudes and a tied embedding have a gradient
// whenever a target is reached. A trained weight of zeros blocks the gradients below it, but only
// in the first step.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFY_VERIFIED_TENSORS_H_
#define COXSWAIN_WORKER_ENGINE_VERIFY_VERIFIED_TENSORS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::engine {

struct VerifiedTensor {
  std::string name;      // name in the plan's table: that of Hugging Face or PEFT
  size_t parameter = 0;  // index into the plan's table
  // Index among the verified tensors: while that tensor is zero, the gradient of this one must be
  // zero.
  std::optional<size_t> zero_factor;
  bool needs_gradient = true;    // false: a key bias
  bool needs_attention = false;  // q and k: gradient only if a target sees two different tokens
};

// Every trainable parameter once, by the plan's group. Inside a group: factors that do not begin at
// zero and whole tensors, then factors that do, then magnitudes; each in the order of the table.
std::vector<VerifiedTensor> MakeVerifiedTensors(const plan::Plan& plan);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_VERIFIED_TENSORS_H_
