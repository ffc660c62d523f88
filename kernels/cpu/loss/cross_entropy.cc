// Two reads of a row that stays in cache: the maximum, then exponentials and sums. With a gradient
// the exponentials replace the logits and a third loop scales them. Sums: 16 float lanes per 1,024
// elements, their totals in double, so that the error does not grow with V. With softcap the logits
// stay until the gradient replaces them, and are capped again then.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/loss/loss_row.h"
#include "kernels/cpu/norms/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/loss/cross_entropy.h"

namespace coxswain::kernels {
namespace {

using cpu::RowSums;

COXSWAIN_VECTORIZE RowSums ReadRow(float* z, int64_t n) { return cpu::SumRow<false>(z, n); }
COXSWAIN_VECTORIZE RowSums ReplaceRow(float* z, int64_t n) { return cpu::SumRow<true>(z, n); }
COXSWAIN_VECTORIZE RowSums ReadCappedRow(const float* logits, float k, int64_t n) {
  return cpu::SumCappedRow(logits, k, n);
}

COXSWAIN_VECTORIZE void ScaleRow(float* z, float factor, float shift, int64_t n) {
  for (int64_t j = 0; j < n; ++j) z[j] = z[j] * factor - shift;
}

struct CappedGradient {
  float maximum, factor, shift, softcap;
};

COXSWAIN_VECTORIZE void ReplaceCappedRow(const CappedGradient& g, float* logits, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const float z = cpu::Cap(logits[j], g.softcap), ratio = z / g.softcap;
    logits[j] = (cpu::Exp(z - g.maximum) * g.factor - g.shift) * (1.0f - ratio * ratio);
  }
}

// The row's gradient, times `scale`. `z` holds exp(z - maximum), or with softcap still the logits.
void WriteGradient(const CrossEntropyArgs& args, double scale, const RowSums& sums, double lse,
                   float z_target, int32_t target, float* z) {
  const int64_t vocab = args.spec.vocab;
  const double smoothing = args.spec.label_smoothing;
  const double factor = scale * (1.0 + 2.0 * args.spec.z_loss * lse) / sums.exponentials;
  const double shift = scale * smoothing / static_cast<double>(vocab);
  // The target's own element in double: p_y - 1 cancels.
  const double at_target = factor * static_cast<double>(cpu::Exp(z_target - sums.maximum)) - shift -
                           scale * (1.0 - smoothing);
  const float f = static_cast<float>(factor), s = static_cast<float>(shift);
  if (const float k = args.spec.softcap; k > 0.0f) {
    ReplaceCappedRow({sums.maximum, f, s, k}, z, vocab);
    const double ratio = static_cast<double>(z_target) / k;
    z[target] = static_cast<float>(at_target * (1.0 - ratio * ratio));
  } else {
    ScaleRow(z, f, s, vocab);
    z[target] = static_cast<float>(at_target);
  }
}

// `ld` elements between rows.
void OneRow(const CrossEntropyArgs& args, int64_t row, int64_t ld) {
  const int64_t vocab = args.spec.vocab;
  float* z = args.gradient_scale == nullptr
                 ? static_cast<float*>(args.logits) + row * ld
                 : cpu::RowForGradient(args.logits, args.gradient, row, ld);
  const int32_t target = args.targets[row];
  const bool ignored = target == kIgnoreTarget;
  if (args.gradient_scale != nullptr) std::fill(z + (ignored ? 0 : vocab), z + ld, 0.0f);
  if (ignored) {
    args.loss[row] = 0.0f;
    if (args.nll != nullptr) args.nll[row] = 0.0f;
    return;
  }
  const float k = args.spec.softcap;
  const float z_target = k > 0.0f ? cpu::Cap(z[target], k) : z[target];
  const bool replace = k == 0.0f && args.gradient_scale != nullptr;
  const RowSums sums = k > 0.0f  ? ReadCappedRow(z, k, vocab)
                       : replace ? ReplaceRow(z, vocab)
                                 : ReadRow(z, vocab);
  const double smoothing = args.spec.label_smoothing, z_loss = args.spec.z_loss;
  const double lse = static_cast<double>(sums.maximum) + std::log(sums.exponentials);
  const double nll = lse - static_cast<double>(z_target);
  double loss = nll + z_loss * lse * lse;
  if (smoothing > 0.0) {  // infinite logits make the mean infinite: unused, it must not enter
    loss += smoothing * (static_cast<double>(z_target) - sums.logits / static_cast<double>(vocab));
  }
  args.loss[row] = static_cast<float>(loss);
  if (args.nll != nullptr) args.nll[row] = static_cast<float>(nll);
  if (args.gradient_scale == nullptr) return;
  const double weight = args.row_weights == nullptr ? 1.0 : args.row_weights[row];
  WriteGradient(args, *args.gradient_scale * weight, sums, lse, z_target, target, z);
}

void RequireTargets(const CrossEntropyArgs& args) {
  for (int64_t i = 0; i < args.rows; ++i) {
    const int32_t target = args.targets[i];
    if (target != kIgnoreTarget && (target < 0 || target >= args.spec.vocab)) {
      throw std::invalid_argument("CrossEntropy: row " + std::to_string(i) + " has target " +
                                  std::to_string(target) + ", the vocabulary has " +
                                  std::to_string(args.spec.vocab));
    }
  }
}

}  // namespace

bool CrossEntropySupports(const CrossEntropySpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.vocab > 0 && spec.label_smoothing >= 0.0f &&
         spec.label_smoothing < 1.0f && spec.z_loss >= 0.0f && spec.softcap >= 0.0f;
}

void CrossEntropy(const CrossEntropyArgs& args, Stream* stream) {
  cpu::RequireSupported(CrossEntropySupports(args.spec), "CrossEntropy");
  RequireTargets(args);
  const int64_t ld = cpu::RowStride(args.ld, args.spec.vocab, "CrossEntropy");
  cpu::ParallelFor(args.rows, 8 * args.spec.vocab, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) OneRow(args, row, ld);
  });
}

// One read of a row: no logit before the target's may reach it, none behind it may exceed it. What
// does is counted, so that the loops have no exit and vectorise.

namespace {

COXSWAIN_VECTORIZE int64_t CountNotBelow(const float* z, float bound, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += !(z[i] < bound);
  return count;
}

COXSWAIN_VECTORIZE int64_t CountNotAtMost(const float* z, float bound, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += !(z[i] <= bound);
  return count;
}

bool IsHit(const float* z, int32_t target, int64_t vocab) {
  if (target < 0 || target >= vocab) return false;
  const float at_target = z[target];
  return CountNotBelow(z, at_target, target) == 0 &&
         CountNotAtMost(z + target, at_target, vocab - target) == 0;
}

}  // namespace

bool TargetHitsSupports(const TargetHitsSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.vocab > 0;
}

void TargetHits(const TargetHitsArgs& args, Stream* stream) {
  cpu::RequireSupported(TargetHitsSupports(args.spec), "TargetHits");
  const auto* logits = static_cast<const float*>(args.logits);
  const int64_t ld = cpu::RowStride(args.ld, args.spec.vocab, "TargetHits");
  cpu::ParallelFor(args.rows, args.spec.vocab, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* z = logits + row * ld;
      args.hits[row] = IsHit(z, args.targets[row], args.spec.vocab) ? 1.0f : 0.0f;
    }
  });
}

// Two reads of a row that have no exit and vectorise: its maximum, which a NaN makes NaN, then the
// number of columns before the first that reaches it.

namespace {

COXSWAIN_VECTORIZE float RowMaximum(const float* z, int64_t n) {
  float lanes[cpu::kLanes];
  for (float& lane : lanes) lane = z[0];
  // A comparison with NaN is false: it enters where it stands on the right, and stays.
  int64_t i = 0;
  for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) {
      lanes[j] = lanes[j] >= z[i + j] || lanes[j] != lanes[j] ? lanes[j] : z[i + j];
    }
  }
  for (; i < n; ++i) lanes[0] = lanes[0] >= z[i] || lanes[0] != lanes[0] ? lanes[0] : z[i];
  float maximum = lanes[0];
  for (float lane : lanes) maximum = maximum >= lane || maximum != maximum ? maximum : lane;
  return maximum;
}

int32_t FirstMaximum(const float* z, int64_t n) {
  const float maximum = RowMaximum(z, n);
  if (maximum != maximum) return -1;
  int64_t column = 0;
  while (z[column] < maximum) ++column;
  return static_cast<int32_t>(column);
}

}  // namespace

bool ArgmaxSupports(const ArgmaxSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.columns > 0 &&
         spec.columns < std::numeric_limits<int32_t>::max();
}

void Argmax(const ArgmaxArgs& args, Stream* stream) {
  cpu::RequireSupported(ArgmaxSupports(args.spec), "Argmax");
  const auto* values = static_cast<const float*>(args.values);
  const int64_t ld = cpu::RowStride(args.ld, args.spec.columns, "Argmax");
  cpu::ParallelFor(args.rows, args.spec.columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      args.columns[row] = FirstMaximum(values + row * ld, args.spec.columns);
    }
  });
}

}  // namespace coxswain::kernels
