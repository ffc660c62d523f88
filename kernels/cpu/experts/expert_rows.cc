#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/experts/expert_rows.h"

namespace coxswain::kernels {

// A counting sort by one thread: count, sum, place. 20 bytes per pair.

bool SortByExpertSupports(const SortByExpertSpec& spec) {
  return spec.experts > 0 && spec.experts < std::numeric_limits<int32_t>::max() && spec.chosen > 0;
}

int64_t SortByExpertWorkspaceBytes(const SortByExpertSpec& spec, int64_t tokens) { return 0; }

void SortByExpert(const SortByExpertArgs& args, Stream* stream) {
  cpu::RequireSupported(SortByExpertSupports(args.spec), "SortByExpert");
  const int64_t experts = args.spec.experts, pairs = args.tokens * args.spec.chosen;
  if (pairs > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("SortByExpert: " + std::to_string(pairs) +
                                " pairs, places are below 2147483648");
  }
  cpu::RequireExperts(args.ids, args.tokens, args.spec.chosen, experts, "SortByExpert");
  std::fill_n(args.counts, experts, 0);
  for (int64_t p = 0; p < pairs; ++p) {
    if (args.ids[p] >= 0) ++args.counts[args.ids[p]];
  }
  args.offsets[0] = 0;
  for (int64_t e = 0; e < experts; ++e) args.offsets[e + 1] = args.offsets[e] + args.counts[e];
  std::fill_n(args.counts, experts, 0);
  for (int64_t p = 0; p < pairs; ++p) {
    const int32_t expert = args.ids[p];
    const int32_t place = expert < 0 ? -1 : args.offsets[expert] + args.counts[expert]++;
    args.places[p] = place;
    if (place >= 0) args.order[place] = static_cast<int32_t>(p);
  }
  std::fill(args.order + args.offsets[experts], args.order + pairs, -1);
}

// A copy of rows; the backward adds at most k rows to each token's, in the order of slots.

bool DispatchSupports(const DispatchSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.hidden > 0 && spec.chosen > 0;
}

void DispatchForward(const DispatchForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(DispatchSupports(args.spec), "Dispatch");
  const int64_t hidden = args.spec.hidden, chosen = args.spec.chosen, pairs = args.tokens * chosen;
  cpu::RequireIndex(args.order, pairs, pairs, "Dispatch", "order");
  cpu::RequireIndex(args.places, pairs, pairs, "Dispatch", "places");
  const float* x = static_cast<const float*>(args.x);
  float* rows = static_cast<float*>(args.rows);
  cpu::ParallelFor(pairs, hidden, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (args.order[i] < 0) {
        std::fill_n(rows + i * hidden, hidden, 0.0f);
      } else {
        std::memcpy(rows + i * hidden, x + args.order[i] / chosen * hidden,
                    static_cast<size_t>(hidden) * sizeof(float));
      }
    }
  });
}

void DispatchBackward(const DispatchBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(DispatchSupports(args.spec), "Dispatch");
  const int64_t hidden = args.spec.hidden, chosen = args.spec.chosen, pairs = args.tokens * chosen;
  cpu::RequireIndex(args.places, pairs, pairs, "Dispatch", "places");
  const float* drows = static_cast<const float*>(args.drows);
  float* dx = static_cast<float*>(args.dx);
  cpu::ParallelFor(args.tokens, hidden * chosen, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (!args.accumulate) std::fill_n(dx + t * hidden, hidden, 0.0f);
      for (int64_t s = 0; s < chosen; ++s) {
        const int64_t place = args.places[t * chosen + s];
        if (place >= 0) cpu::AddScaled(1.0f, drows + place * hidden, dx + t * hidden, hidden);
      }
    }
  });
}

// Forward adds at most k scaled rows to each token's, in the order of slots. Backward reads the
// rows for the weights before it writes their gradients, so that both may be one buffer.

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

// One pass over the rows: 12 bytes per element forward, 12 backward. A row is read for the gradient
// of its logit before its own gradient takes its place.

namespace {

float Gate(float logit) { return 1.0f / (1.0f + cpu::Exp(-logit)); }

COXSWAIN_VECTORIZE float ProductOfRows(const float* dy, const float* x, int64_t n) {
  return cpu::Dot(dy, x, n);
}

COXSWAIN_VECTORIZE void GatedRow(float gate, const float* dy, float* dx, int64_t n) {
  for (int64_t j = 0; j < n; ++j) dx[j] = gate * dy[j];
}

void BackwardOfRow(const SigmoidGateBackwardArgs& args, int64_t t) {
  const int64_t n = args.spec.columns;
  const float gate = Gate(static_cast<const float*>(args.logits)[t]);
  const float* dy = static_cast<const float*>(args.dy) + t * n;
  if (args.dlogits != nullptr) {
    const float product = ProductOfRows(dy, static_cast<const float*>(args.x) + t * n, n);
    static_cast<float*>(args.dlogits)[t] = gate * (1.0f - gate) * product;
  }
  if (args.dx != nullptr) GatedRow(gate, dy, static_cast<float*>(args.dx) + t * n, n);
}

}  // namespace

bool SigmoidGateSupports(const SigmoidGateSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.columns > 0;
}

void SigmoidGateForward(const SigmoidGateForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(SigmoidGateSupports(args.spec), "SigmoidGate");
  const int64_t n = args.spec.columns;
  cpu::ParallelFor(args.rows, n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      cpu::AddScaled(Gate(static_cast<const float*>(args.logits)[t]),
                     static_cast<const float*>(args.x) + t * n, static_cast<float*>(args.y) + t * n,
                     n);
    }
  });
}

void SigmoidGateBackward(const SigmoidGateBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(SigmoidGateSupports(args.spec), "SigmoidGate");
  cpu::ParallelFor(args.rows, 2 * args.spec.columns, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) BackwardOfRow(args, t);
  });
}

}  // namespace coxswain::kernels
