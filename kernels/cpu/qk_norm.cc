// RMSNorm of each q and k head in place on packed rows. The values before the norm are copied out
// for backward: dividing the result by the weight would not bring them back where the weight is 0.
// dweight: blocks of 64 tokens summed apart in the workspace, then added in block order.
#include "kernels/qk_norm.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/cpu/add_scaled.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE void ForwardTokens(const QkNormForwardArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.spec.head_dim, heads = args.spec.num_heads;
  const int64_t normed = heads + args.spec.num_kv_heads;
  const int64_t row = (normed + args.spec.num_kv_heads) * dim;
  const float* q_weight = static_cast<const float*>(args.q_weight);
  const float* k_weight = static_cast<const float*>(args.k_weight);
  for (int64_t t = begin; t < end; ++t) {
    float* qk = static_cast<float*>(args.qkv) + t * row;
    float* saved = static_cast<float*>(args.saved_qk) + t * normed * dim;
    for (int64_t j = 0; j < normed * dim; ++j) saved[j] = qk[j];
    for (int64_t h = 0; h < normed; ++h) {
      args.rstd[t * normed + h] = cpu::NormRow(saved + h * dim, h < heads ? q_weight : k_weight,
                                               /*offset=*/0.0f, args.spec.eps, qk + h * dim, dim);
    }
  }
}

// dweights [2, hd]: q, k; null: frozen.
COXSWAIN_VECTORIZE void BackwardTokens(const QkNormBackwardArgs& args, int64_t begin, int64_t end,
                                       float* dweights) {
  const int64_t dim = args.spec.head_dim, heads = args.spec.num_heads;
  const int64_t normed = heads + args.spec.num_kv_heads;
  const int64_t row = (normed + args.spec.num_kv_heads) * dim;
  const float* q_weight = static_cast<const float*>(args.q_weight);
  const float* k_weight = static_cast<const float*>(args.k_weight);
  for (int64_t t = begin; t < end; ++t) {
    float* dqk = static_cast<float*>(args.dqkv) + t * row;
    const float* saved = static_cast<const float*>(args.saved_qk) + t * normed * dim;
    for (int64_t h = 0; h < normed; ++h) {
      const bool is_q = h < heads;
      float* dweight = dweights == nullptr ? nullptr : dweights + (is_q ? 0 : dim);
      cpu::NormRowBackward<false>(dqk + h * dim, saved + h * dim, is_q ? q_weight : k_weight,
                                  /*offset=*/0.0f, args.rstd[t * normed + h], dqk + h * dim,
                                  dweight, dim);
    }
  }
}

int64_t Blocks(int64_t tokens) { return (tokens + cpu::kNormBlockRows - 1) / cpu::kNormBlockRows; }

}  // namespace

bool QkNormSupports(const QkNormSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32 &&
         spec.num_heads > 0 && spec.num_kv_heads > 0 && spec.head_dim > 0;
}

void QkNormForward(const QkNormForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(QkNormSupports(args.spec), "QkNorm");
  const int64_t elements = (args.spec.num_heads + args.spec.num_kv_heads) * args.spec.head_dim;
  cpu::ParallelFor(args.tokens, 3 * elements,
                   [&](int64_t begin, int64_t end) { ForwardTokens(args, begin, end); });
}

int64_t QkNormBackwardWorkspaceBytes(const QkNormSpec& spec, int64_t tokens) {
  return cpu::AlignedFloatBytes(Blocks(tokens) * 2 * spec.head_dim);
}

void QkNormBackward(const QkNormBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(QkNormSupports(args.spec), "QkNorm");
  if ((args.dq_weight == nullptr) != (args.dk_weight == nullptr)) {
    throw std::invalid_argument("QkNorm: one of dq_weight and dk_weight is null, the other not");
  }
  const bool frozen = args.dq_weight == nullptr;
  const int64_t dim = args.spec.head_dim, blocks = Blocks(args.tokens);
  const int64_t elements = (args.spec.num_heads + args.spec.num_kv_heads) * dim;
  float* partial = static_cast<float*>(args.workspace.data);
  if (!frozen) {
    cpu::RequireWorkspace(args.workspace, QkNormBackwardWorkspaceBytes(args.spec, args.tokens),
                          "QkNorm");
    std::memset(partial, 0, static_cast<size_t>(blocks * 2 * dim) * sizeof(float));
  }
  cpu::ParallelFor(blocks, 4 * elements * cpu::kNormBlockRows, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      BackwardTokens(args, b * cpu::kNormBlockRows,
                     std::min(args.tokens, (b + 1) * cpu::kNormBlockRows),
                     frozen ? nullptr : partial + b * 2 * dim);
    }
  });
  for (int64_t b = 0; !frozen && b < blocks; ++b) {
    cpu::AddScaled(1.0f, partial + b * 2 * dim, static_cast<float*>(args.dq_weight), dim);
    cpu::AddScaled(1.0f, partial + (b * 2 + 1) * dim, static_cast<float*>(args.dk_weight), dim);
  }
}

}  // namespace coxswain::kernels
