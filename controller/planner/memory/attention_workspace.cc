#include "controller/planner/memory/attention_workspace.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/plan/buffers/buffer_rows.h"
#include "controller/planner/memory/attention_kernels.h"
#include "kernels/attention/fp8_attention.h"

namespace coxswain::planner {
namespace {

// What every algorithm keeps beside partial sums: floats of each head and token.
int64_t OfTokensAndHeads(const plan::Plan& plan) {
  const int64_t tokens = plan.micro_batch_bins * plan.sequence_len;
  return 16 * tokens * plan.model.num_heads + (int64_t{4} << 20);
}

constexpr int64_t kCounterBytes = 256;  // of our kernels, which hand out tiles by it

// Fewer are not worth memory that gathered blocks could take.
constexpr double kFewestOfMicroSteps = 0.1;

}  // namespace

// Source: cuDNN 9.19 on one H200, causal, 32,768 tokens, MiB measured | by this formula:
// 14 heads x 64, documents of 512, 1,024, 2,048: 562, 1010, 1906 | 571, 1019, 1915; 28 x 128:
// 1348, 2244, 4036 | 1362, 2258, 4050; not deterministic: 226, 900 | 235, 914.
int64_t FastestAttentionBytes(const plan::Plan& plan) {
  if (plan.compute_dtype != Precision::kBfloat16 || plan.fp8.attention) {
    return LeastAttentionBytes(plan);
  }
  const int64_t tokens = plan.micro_batch_bins * plan.sequence_len;
  const int64_t query = plan.model.num_heads * plan.model.head_dim;
  const int64_t block_keys = plan.model.head_dim <= 64 ? 128 : 256;
  const int64_t partials = 4 * ((plan.sequence_len + block_keys - 1) / block_keys) + 4;
  return tokens * query * (plan.attention_deterministic ? partials : 8) + OfTokensAndHeads(plan);
}

int64_t LeastAttentionBytes(const plan::Plan& plan) {
  return std::max(OfTokensAndHeads(plan), Fp8AttentionBytes(plan));
}

int64_t Fp8AttentionBytes(const plan::Plan& plan) {
  if (!plan.fp8.attention) return 0;
  const model::ModelConfig& model = plan.model;
  const int64_t tokens = plan.micro_batch_bins * plan.sequence_len;
  return kCounterBytes + kernels::Fp8AttentionPartsOf(model.num_kv_heads, model.head_dim,
                                                      model.value_dim(), tokens,
                                                      plan::MostDocuments(plan))
                             .bytes;
}

int64_t FastestAttentionBytes(const plan::Plan& plan, int32_t compute_capability) {
  const bool cudnn =
      std::string_view(AttentionKernelsOf(plan, compute_capability).single) == "cuDNN";
  return cudnn ? FastestAttentionBytes(plan) : LeastAttentionBytes(plan);
}

int64_t WorkspaceOf(int64_t attention_bytes) {
  return std::max(attention_bytes, int64_t{64} << 20);
}

bool RunsSingleDocuments(const plan::Plan& plan, double single_document_bins) {
  const auto bins = static_cast<double>(plan.micro_batch_bins);
  return std::pow(single_document_bins, bins) >= kFewestOfMicroSteps;
}

}  // namespace coxswain::planner
