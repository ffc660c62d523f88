// Which algorithm runs the attention of kernels/attention/attention.h: on compute capability 9.0
// the kernels of warpgroups where they take the heads; what was prepared as dense, where they do
// not or are slower, cuDNN's plan; bfloat16 otherwise the flash kernels, the rest the plain ones.
// The choice follows from spec, shape and what PrepareAttention has built, so that forward and
// backward of the same documents agree.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/attention/attention_contract.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/attention/flash_attention.h"
#include "kernels/cuda/attention/hopper_attention.h"
#include "kernels/cuda/attention/plain_attention.h"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

void RequireDocuments(const Documents& documents, int64_t tokens) {
  cuda::RequireExtent(tokens, "Attention", "tokens");
  cuda::RequireExtent(documents.count, "Attention", "documents.count");
  const bool fits = documents.dense ? documents.count * documents.max_length == tokens
                                    : documents.count > 0 || tokens == 0;
  if (!fits || tokens > INT32_MAX) {
    throw std::invalid_argument("Attention: " + std::to_string(tokens) + " tokens in " +
                                std::to_string(documents.count) +
                                (documents.dense ? " documents of " : " documents of at most ") +
                                std::to_string(documents.max_length));
  }
}

// The plan that serves these documents; null when they run on our own kernels.
const cuda::CudnnAttention* Plan(const AttentionSpec& spec, const Documents& documents) {
  if (!documents.dense || cuda::HopperAttentionIsFastest(spec, documents.max_length)) {
    return nullptr;
  }
  return cuda::FindCudnnAttention(spec, documents.count, documents.max_length);
}

Documents DocumentsOf(const AttentionExtents& extents) {
  return {.count = extents.documents, .max_length = extents.max_length, .dense = extents.dense};
}

int64_t ForwardBytes(const AttentionSpec& spec, const Documents& documents, int64_t tokens) {
  const cuda::CudnnAttention* plan = Plan(spec, documents);
  if (plan != nullptr) return cuda::CudnnAttentionForwardWorkspaceBytes(*plan);
  return cuda::HopperAttentionSupports(spec)
             ? cuda::HopperAttentionForwardWorkspaceBytes(spec, tokens, documents.count)
             : 0;
}

int64_t BackwardBytes(const AttentionSpec& spec, const Documents& documents, int64_t tokens) {
  const cuda::CudnnAttention* plan = Plan(spec, documents);
  if (plan != nullptr) return cuda::CudnnAttentionBackwardWorkspaceBytes(*plan);
  if (cuda::HopperAttentionSupports(spec)) {
    return cuda::HopperAttentionBackwardWorkspaceBytes(spec, tokens);
  }
  return cuda::FlashAttentionSupports(spec)
             ? cuda::FlashAttentionBackwardWorkspaceBytes(spec, tokens)
             : cuda::PlainAttentionBackwardWorkspaceBytes(spec, tokens);
}

// What our own kernels say for themselves, and whether their workspace fits.
std::string PrepareOwn(const AttentionSpec& spec, const AttentionExtents& extents) {
  Documents packed = DocumentsOf(extents);
  packed.dense = false;
  const int64_t need = std::max(ForwardBytes(spec, packed, extents.tokens),
                                BackwardBytes(spec, packed, extents.tokens));
  if (extents.workspace_budget > 0 && need > extents.workspace_budget) {
    throw std::invalid_argument("Attention: needs a workspace of " + std::to_string(need) +
                                " bytes, " + std::to_string(extents.workspace_budget) +
                                " are allowed");
  }
  if (spec.fp8) return "warpgroup kernels over packed documents, forward in FP8";
  if (cuda::HopperAttentionSupports(spec)) return "warpgroup kernels over packed documents";
  if (cuda::FlashAttentionSupports(spec)) return "flash kernels over packed documents";
  if (spec.dtype == DType::kFloat32) return "plain kernels for float32";
  const std::string keys = std::to_string(spec.head_dim), values = std::to_string(ValueDim(spec));
  return "plain kernels: " + (keys == values ? keys : keys + " and " + values) +
         "-wide heads have no faster ones";
}

}  // namespace

bool AttentionSupports(const AttentionSpec& spec) {
  return IsAttention(spec) && spec.head_dim <= cuda::kPlainLargestHeadDim &&
         ValueDim(spec) <= cuda::kPlainLargestHeadDim &&
         (!spec.fp8 || cuda::HopperAttentionSupports(spec));
}

std::string PrepareAttention(const AttentionSpec& spec, const AttentionExtents& extents,
                             Stream* stream) {
  cuda::RequireSupported(AttentionSupports(spec), "Attention");
  if (!extents.dense || stream == nullptr || extents.tokens == 0 ||
      !cuda::CudnnAttentionSupports(spec) ||
      cuda::HopperAttentionIsFastest(spec, extents.max_length)) {
    return PrepareOwn(spec, extents);
  }
  std::string line;
  const cuda::CudnnAttention* plan = cuda::PrepareCudnnAttention(
      spec, extents.documents, extents.max_length, extents.workspace_budget, stream, &line);
  return plan != nullptr ? line : PrepareOwn(spec, extents) + "; " + line;
}

int64_t AttentionForwardWorkspaceBytes(const AttentionSpec& spec, const AttentionExtents& extents) {
  return ForwardBytes(spec, DocumentsOf(extents), extents.tokens);
}

int64_t AttentionBackwardWorkspaceBytes(const AttentionSpec& spec,
                                        const AttentionExtents& extents) {
  return BackwardBytes(spec, DocumentsOf(extents), extents.tokens);
}

void AttentionForward(const AttentionForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(AttentionSupports(args.spec), "Attention");
  RequireSinks(args.spec, args.sinks, "Attention");
  RequireDocuments(args.documents, args.tokens);
  RequireRounded(args);
  cuda::RequireWorkspace(args.workspace, ForwardBytes(args.spec, args.documents, args.tokens),
                         "Attention");
  if (args.tokens == 0) return;
  if (const cuda::CudnnAttention* plan = Plan(args.spec, args.documents)) {
    cuda::CudnnAttentionForward(*plan, args, stream);
  } else if (cuda::HopperAttentionSupports(args.spec)) {
    cuda::HopperAttentionForward(args, stream);
  } else if (cuda::FlashAttentionSupports(args.spec)) {
    cuda::FlashAttentionForward(args, stream);
  } else {
    cuda::PlainAttentionForward(args, stream);
  }
}

void AttentionBackward(const AttentionBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(AttentionSupports(args.spec), "Attention");
  RequireGradients(args);
  RequireDocuments(args.documents, args.tokens);
  cuda::RequireWorkspace(args.workspace, BackwardBytes(args.spec, args.documents, args.tokens),
                         "Attention");
  if (args.tokens == 0) return;
  if (const cuda::CudnnAttention* plan = Plan(args.spec, args.documents)) {
    cuda::CudnnAttentionBackward(*plan, args, stream);
  } else if (cuda::HopperAttentionSupports(args.spec)) {
    return cuda::HopperAttentionBackward(args, stream);  // turns back itself
  } else if (cuda::FlashAttentionSupports(args.spec)) {
    cuda::FlashAttentionBackward(args, stream);
  } else {
    cuda::PlainAttentionBackward(args, stream);
  }
  if (args.rotation != nullptr) RopeBackward(*args.rotation, stream);
}

}  // namespace coxswain::kernels
