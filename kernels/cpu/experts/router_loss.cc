// Sums: a pass over rows for their softmax, then a pass in which each thread adds its own experts'
// probabilities in row order, in double, so that the bits do not depend on the threads. A
// probability is off by 9 u + E/16 u, u = 2^-24.
#include "kernels/experts/router_loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/experts/router_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE void AddProbabilities(const float* logits, cpu::RouterRow row, double* sums,
                                         int64_t n) {
  for (int64_t e = 0; e < n; ++e) sums[e] += cpu::Exp(logits[e] - row.maximum) / row.sum;
}

COXSWAIN_VECTORIZE cpu::RouterRow ReadRow(const float* logits, int64_t n) {
  return cpu::ReadRouterRow(logits, n);
}

void Require(const RouterLossSpec& spec) {
  cpu::RequireSupported(RouterLossSupports(spec), "RouterLoss");
}

// What depends on one row at a time: choices, N and the sum of lse^2.
void AddRows(const RouterLossSumsArgs& args, const cpu::RouterRow* rows) {
  const int64_t experts = args.spec.experts, chosen = args.spec.chosen;
  double* choices = args.sums + experts;
  double* ends = args.sums + 2 * experts;
  for (int64_t t = 0; t < args.tokens; ++t) {
    const int32_t* ids = args.ids + t * chosen;
    if (ids[0] < 0) continue;
    for (int64_t s = 0; s < chosen; ++s) choices[ids[s]] += 1.0;
    const double lse = cpu::LogSum(rows[t]);
    ends[0] += 1.0;
    ends[1] += lse * lse;
  }
}

void GradientRow(const RouterLossGradientArgs& args, double rows, int64_t t) {
  const int64_t experts = args.spec.experts;
  const float* logits = args.logits + t * experts;
  const double* choices = args.sums + experts;
  const cpu::RouterRow row = ReadRow(logits, experts);
  double mean = 0.0;
  for (int64_t e = 0; e < experts; ++e) {
    mean += choices[e] / rows * (cpu::Exp(logits[e] - row.maximum) / row.sum);
  }
  const double scale = args.scale == nullptr ? 1.0 : static_cast<double>(*args.scale);
  const double a = scale * args.factors[0] * static_cast<double>(experts) / rows;
  const double b = scale * 2.0 * args.factors[1] * cpu::LogSum(row) / rows;
  for (int64_t e = 0; e < experts; ++e) {
    const double p = cpu::Exp(logits[e] - row.maximum) / row.sum;
    args.dlogits[t * experts + e] += static_cast<float>(p * (a * (choices[e] / rows - mean) + b));
  }
}

}  // namespace

bool RouterLossSupports(const RouterLossSpec& spec) {
  return spec.experts > 0 && spec.chosen > 0 && spec.chosen <= spec.experts;
}

int64_t RouterLossSumsWorkspaceBytes(const RouterLossSpec& spec, int64_t tokens) {
  return tokens * static_cast<int64_t>(sizeof(cpu::RouterRow));
}

void RouterLossSums(const RouterLossSumsArgs& args, Stream* stream) {
  Require(args.spec);
  const int64_t experts = args.spec.experts, chosen = args.spec.chosen;
  cpu::RequireRoutes(args.ids, args.tokens, chosen, experts, "RouterLoss");
  cpu::RequireWorkspace(args.workspace, RouterLossSumsWorkspaceBytes(args.spec, args.tokens),
                        "RouterLoss");
  if (!args.accumulate) std::fill_n(args.sums, RouterLossSumCount(args.spec), 0.0);
  auto* rows = static_cast<cpu::RouterRow*>(args.workspace.data);
  cpu::ParallelFor(args.tokens, 4 * experts, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (args.ids[t * chosen] >= 0) rows[t] = ReadRow(args.logits + t * experts, experts);
    }
  });
  cpu::ParallelFor(experts, 4 * args.tokens, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < args.tokens; ++t) {
      if (args.ids[t * chosen] < 0) continue;
      AddProbabilities(args.logits + t * experts + begin, rows[t], args.sums + begin, end - begin);
    }
  });
  AddRows(args, rows);
}

void RouterLoss(const RouterLossArgs& args, Stream* stream) {
  Require(args.spec);
  const int64_t experts = args.spec.experts;
  const double rows = args.sums[2 * experts];
  args.losses[0] = args.losses[1] = 0.0;
  if (rows == 0.0) return;
  double sum = 0.0;
  for (int64_t e = 0; e < experts; ++e)
    sum += args.sums[e] / rows * (args.sums[experts + e] / rows);
  args.losses[0] = static_cast<double>(experts) * sum;
  args.losses[1] = args.sums[2 * experts + 1] / rows;
  if (args.total == nullptr) return;
  *args.total += args.factors[0] * args.losses[0] + args.factors[1] * args.losses[1];
  for (int i = 0; args.parts != nullptr && i < 2; ++i) {
    args.parts[i] += args.factors[i] * args.losses[i];
  }
}

void RouterLossGradient(const RouterLossGradientArgs& args, Stream* stream) {
  Require(args.spec);
  const int64_t experts = args.spec.experts, chosen = args.spec.chosen;
  cpu::RequireRoutes(args.ids, args.tokens, chosen, experts, "RouterLoss");
  const double rows = args.sums[2 * experts];
  cpu::ParallelFor(args.tokens, 8 * experts, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (args.ids[t * chosen] >= 0) GradientRow(args, rows, t);
    }
  });
}

}  // namespace coxswain::kernels
