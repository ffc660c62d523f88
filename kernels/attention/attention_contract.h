// What the libraries that implement kernels/attention/attention.h and
// kernels/attention/cached_attention.h both ask of a spec and of its operands.
#ifndef COXSWAIN_KERNELS_ATTENTION_ATTENTION_CONTRACT_H_
#define COXSWAIN_KERNELS_ATTENTION_ATTENTION_CONTRACT_H_

#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/attention/fp8_attention.h"

namespace coxswain::kernels {

// Whether the numbers of the spec make sense together; what a library can run is its own matter.
inline bool IsAttention(const AttentionSpec& spec) {
  return spec.num_kv_heads > 0 && spec.num_heads > 0 && spec.num_heads % spec.num_kv_heads == 0 &&
         spec.head_dim > 0 && spec.value_dim >= 0 && spec.window >= 0 && spec.q_row >= 0 &&
         spec.kv_row >= 0 && spec.v_row >= 0 && std::isfinite(spec.scale) &&
         std::isfinite(spec.softcap) && spec.softcap >= 0.0f &&
         (spec.sink_dtype == DType::kFloat32 || spec.sink_dtype == spec.dtype);
}

// Whether AttentionSpec::fp8 goes with the rest of the spec.
inline bool HasFp8Attention(const AttentionSpec& spec) {
  return spec.softcap == 0.0f && IsFp8AttentionHead(spec.head_dim) &&
         IsFp8AttentionHead(ValueDim(spec));
}

// Throws std::invalid_argument unless `sinks` are given where the spec has them.
inline void RequireSinks(const AttentionSpec& spec, const void* sinks, const char* op) {
  if (spec.sinks == (sinks != nullptr)) return;
  throw std::invalid_argument(std::string(op) + (spec.sinks
                                                     ? ": the spec has sinks, give those of its " +
                                                           std::to_string(spec.num_heads) + " heads"
                                                     : ": sinks are given, but the spec has none"));
}

// Throws std::invalid_argument unless there is a place for what a forward in FP8 rounds.
inline void RequireRounded(const AttentionForwardArgs& args) {
  const HeadOutputs& to = args.rounded;
  if (!args.spec.fp8 || args.tokens == 0 || (to.q != nullptr && to.k != nullptr && to.v != nullptr))
    return;
  throw std::invalid_argument(
      "Attention: with fp8 give `rounded` for q, k and v, or those of `in`");
}

// Of the backward: gradients are asked for that the operands do not allow.
inline void RequireGradients(const AttentionBackwardArgs& args) {
  const AttentionSpec& spec = args.spec;
  RequireSinks(spec, args.sinks, "Attention");
  if (args.sink_gradient != nullptr && !spec.sinks) {
    throw std::invalid_argument("Attention: a gradient of sinks is asked for, the spec has none");
  }
  if (args.rotation != nullptr && ValueDim(spec) != spec.head_dim) {
    throw std::invalid_argument(
        "Attention: gradients turn back where keys and values have the "
        "same width, these have " +
        std::to_string(spec.head_dim) + " and " + std::to_string(ValueDim(spec)));
  }
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ATTENTION_ATTENTION_CONTRACT_H_
