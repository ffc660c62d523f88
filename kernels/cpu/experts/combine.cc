// Forward adds at most k scaled rows to each token's, in the order of slots. Backward reads the
// rows for the weights before it writes their gradients, so that both may be one buffer.
#include "kernels/experts/combine.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE float DotOfRows(const float* a, const float* b, int64_t n) {
  return cpu::Dot(a, b, n);
}

COXSWAIN_VECTORIZE void ScaledRow(float weight, const float* dy, float* drow, int64_t n) {
  for (int64_t j = 0; j < n; ++j) drow[j] = weight * dy[j];
}

void WeightGradients(const CombineBackwardArgs& args) {
  const int64_t hidden = args.spec.hidden, chosen = args.spec.chosen;
  const float* rows = static_cast<const float*>(args.rows);
  const float* dy = static_cast<const float*>(args.dy);
  cpu::ParallelFor(args.tokens * chosen, hidden, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t place = args.places[p];
      args.dweights[p] =
          place < 0 ? 0.0f : DotOfRows(dy + p / chosen * hidden, rows + place * hidden, hidden);
    }
  });
}

void RowGradients(const CombineBackwardArgs& args) {
  const int64_t hidden = args.spec.hidden, chosen = args.spec.chosen;
  const float* dy = static_cast<const float*>(args.dy);
  float* drows = static_cast<float*>(args.drows);
  cpu::ParallelFor(args.tokens * chosen, hidden, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t pair = args.order[i];
      if (pair < 0) {
        std::fill_n(drows + i * hidden, hidden, 0.0f);
      } else {
        ScaledRow(args.weights[pair], dy + pair / chosen * hidden, drows + i * hidden, hidden);
      }
    }
  });
}

}  // namespace

bool CombineSupports(const CombineSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.hidden > 0 && spec.chosen > 0;
}

void CombineForward(const CombineForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(CombineSupports(args.spec), "Combine");
  const int64_t hidden = args.spec.hidden, chosen = args.spec.chosen, pairs = args.tokens * chosen;
  cpu::RequireIndex(args.places, pairs, pairs, "Combine", "places");
  const float* rows = static_cast<const float*>(args.rows);
  float* y = static_cast<float*>(args.y);
  cpu::ParallelFor(args.tokens, hidden * chosen, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      std::fill_n(y + t * hidden, hidden, 0.0f);
      for (int64_t p = t * chosen; p < (t + 1) * chosen; ++p) {
        if (args.places[p] < 0) continue;
        cpu::AddScaled(args.weights[p], rows + args.places[p] * hidden, y + t * hidden, hidden);
      }
    }
  });
}

void CombineBackward(const CombineBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(CombineSupports(args.spec), "Combine");
  const int64_t pairs = args.tokens * args.spec.chosen;
  cpu::RequireIndex(args.order, pairs, pairs, "Combine", "order");
  cpu::RequireIndex(args.places, pairs, pairs, "Combine", "places");
  if (args.dweights != nullptr) WeightGradients(args);
  if (args.drows != nullptr) RowGradients(args);
}

}  // namespace coxswain::kernels
