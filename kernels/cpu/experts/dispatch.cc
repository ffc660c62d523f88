// A copy of rows; the backward adds at most k rows to each token's, in the order of slots.
#include "kernels/experts/dispatch.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"

namespace coxswain::kernels {

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

}  // namespace coxswain::kernels
