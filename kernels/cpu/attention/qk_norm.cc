// RMSNorm of each q and k head, or of all of them together, in place on packed rows. The values
// before the norm are copied out for backward: dividing the result by the weight would not bring
// them back where the weight is 0. dweight: blocks of 64 tokens summed apart in the workspace, then
// added in block order.
#include "kernels/attention/heads.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/cpu/check.h"
#include "kernels/cpu/norms/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

// The norms of one token that share a weight vector.
struct Norms {
  int64_t count, width;
  int64_t elements() const { return count * width; }
};
Norms QueryNorms(const QkNormSpec& spec) {
  if (spec.whole) return {1, spec.num_heads * spec.head_dim};
  return {spec.num_heads, spec.head_dim};
}
Norms KeyNorms(const QkNormSpec& spec) {
  if (spec.whole) return {1, spec.num_kv_heads * spec.head_dim};
  return {spec.num_kv_heads, spec.head_dim};
}

COXSWAIN_INLINE void ForwardNorms(const Norms& norms, const QkNormSpec& spec, const float* saved,
                                  const float* weight, float* x, float* rstd) {
  for (int64_t i = 0; i < norms.count; ++i) {
    const int64_t at = i * norms.width;
    rstd[i] = cpu::NormRow(saved + at, weight, spec.weight_offset, spec.eps, x + at, norms.width);
  }
}

COXSWAIN_VECTORIZE void ForwardTokens(const QkNormForwardArgs& args, int64_t begin, int64_t end) {
  const Norms q = QueryNorms(args.spec), k = KeyNorms(args.spec);
  const int64_t normed = q.elements() + k.elements(), row = normed + k.elements();
  const float* q_weight = static_cast<const float*>(args.q_weight);
  const float* k_weight = static_cast<const float*>(args.k_weight);
  for (int64_t t = begin; t < end; ++t) {
    float* qk = static_cast<float*>(args.qkv) + t * row;
    float* saved = static_cast<float*>(args.saved_qk) + t * normed;
    float* rstd = args.rstd + t * (q.count + k.count);
    for (int64_t j = 0; j < normed; ++j) saved[j] = qk[j];
    ForwardNorms(q, args.spec, saved, q_weight, qk, rstd);
    ForwardNorms(k, args.spec, saved + q.elements(), k_weight, qk + q.elements(), rstd + q.count);
  }
}

COXSWAIN_INLINE void BackwardNorms(const Norms& norms, float offset, const float* saved,
                                   const float* weight, const float* rstd, float* dx,
                                   float* dweight) {
  for (int64_t i = 0; i < norms.count; ++i) {
    const int64_t at = i * norms.width;
    cpu::NormRowBackward<false>(dx + at, saved + at, weight, offset, rstd[i], dx + at, dweight,
                                norms.width);
  }
}

// dweights [wq + wk]: q, k; null: frozen.
COXSWAIN_VECTORIZE void BackwardTokens(const QkNormBackwardArgs& args, int64_t begin, int64_t end,
                                       float* dweights) {
  const Norms q = QueryNorms(args.spec), k = KeyNorms(args.spec);
  const int64_t normed = q.elements() + k.elements(), row = normed + k.elements();
  const float* q_weight = static_cast<const float*>(args.q_weight);
  const float* k_weight = static_cast<const float*>(args.k_weight);
  float* dk_weight = dweights == nullptr ? nullptr : dweights + q.width;
  for (int64_t t = begin; t < end; ++t) {
    float* dqk = static_cast<float*>(args.dqkv) + t * row;
    const float* saved = static_cast<const float*>(args.saved_qk) + t * normed;
    const float* rstd = args.rstd + t * (q.count + k.count);
    BackwardNorms(q, args.spec.weight_offset, saved, q_weight, rstd, dqk, dweights);
    BackwardNorms(k, args.spec.weight_offset, saved + q.elements(), k_weight, rstd + q.count,
                  dqk + q.elements(), dk_weight);
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
  return cpu::AlignedFloatBytes(Blocks(tokens) * (QueryNorms(spec).width + KeyNorms(spec).width));
}

void QkNormBackward(const QkNormBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(QkNormSupports(args.spec), "QkNorm");
  if ((args.dq_weight == nullptr) != (args.dk_weight == nullptr)) {
    throw std::invalid_argument("QkNorm: one of dq_weight and dk_weight is null, the other not");
  }
  const bool frozen = args.dq_weight == nullptr;
  const Norms q = QueryNorms(args.spec), k = KeyNorms(args.spec);
  const int64_t pitch = q.width + k.width, blocks = Blocks(args.tokens);
  const int64_t elements = q.elements() + k.elements();
  float* partial = static_cast<float*>(args.workspace.data);
  if (!frozen) {
    cpu::RequireWorkspace(args.workspace, QkNormBackwardWorkspaceBytes(args.spec, args.tokens),
                          "QkNorm");
    std::memset(partial, 0, static_cast<size_t>(blocks * pitch) * sizeof(float));
  }
  cpu::ParallelFor(blocks, 4 * elements * cpu::kNormBlockRows, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      BackwardTokens(args, b * cpu::kNormBlockRows,
                     std::min(args.tokens, (b + 1) * cpu::kNormBlockRows),
                     frozen ? nullptr : partial + b * pitch);
    }
  });
  for (int64_t b = 0; !frozen && b < blocks; ++b) {
    const float* sums = partial + b * pitch;
    cpu::AddScaled(1.0f, sums, static_cast<float*>(args.dq_weight), q.width);
    cpu::AddScaled(1.0f, sums + q.width, static_cast<float*>(args.dk_weight), k.width);
  }
}

}  // namespace coxswain::kernels
