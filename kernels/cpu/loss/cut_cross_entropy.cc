// A panel of logits, in one or two reads of a row that stays in cache. The sums of a row go from
// panel to panel in double: a larger maximum scales what was summed before.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/loss/loss_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/loss/cut_panels.h"

namespace coxswain::kernels {
namespace {

// What is known of a row behind some panels.
struct CutRow {
  double exponentials;  // sum of exp(z - maximum)
  double logits;        // sum of z
  float maximum;
  float target;        // z of the target
  float largest;       // logit, before the softcap; kept where hits are wanted
  int32_t at_largest;  // its first column
};
static_assert(sizeof(CutRow) <= kCutRowBytes);

constexpr float kNone = -std::numeric_limits<float>::infinity();

COXSWAIN_VECTORIZE cpu::RowSums ReadPanelRow(float* z, float k, int64_t n) {
  return k > 0.0f ? cpu::SumCappedRow(z, k, n) : cpu::SumRow<false>(z, n);
}
COXSWAIN_VECTORIZE float LargestOf(const float* z, int64_t n) { return cpu::MaxOfRow(z, n); }

// dz = e factor - shift.
struct RowFactors {
  float maximum, factor, shift;
};

COXSWAIN_VECTORIZE void ReplacePanelRow(const RowFactors& row, float* z, int64_t n) {
  for (int64_t j = 0; j < n; ++j) z[j] = cpu::Exp(z[j] - row.maximum) * row.factor - row.shift;
}
COXSWAIN_VECTORIZE void ReplaceCappedPanelRow(const RowFactors& row, float k, float* z, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const float capped = cpu::Cap(z[j], k), ratio = capped / k;
    z[j] = (cpu::Exp(capped - row.maximum) * row.factor - row.shift) * (1.0f - ratio * ratio);
  }
}

void AddSums(const cpu::RowSums& sums, CutRow* row) {
  const float maximum = std::max(row->maximum, sums.maximum);
  const auto scaled = [maximum](double sum, float from) {
    return from == maximum ? sum : sum * std::exp(static_cast<double>(from) - maximum);
  };
  row->exponentials =
      scaled(row->exponentials, row->maximum) + scaled(sums.exponentials, sums.maximum);
  row->logits += sums.logits;
  row->maximum = maximum;
}

void FindLargest(const float* z, const CutPanel& panel, CutRow* row) {
  const float largest = LargestOf(z, panel.columns);
  if (!(largest > row->largest)) return;
  row->largest = largest;
  row->at_largest =
      static_cast<int32_t>(panel.first + (std::find(z, z + panel.columns, largest) - z));
}

void WriteIgnoredRow(const CutCrossEntropyForwardArgs& args, int64_t i) {
  args.loss[i] = args.statistics[2 * i] = args.statistics[2 * i + 1] = 0.0f;
  if (args.nll != nullptr) args.nll[i] = 0.0f;
  if (args.hits != nullptr) args.hits[i] = 0.0f;
}

void WriteRow(const CutCrossEntropyForwardArgs& args, const CutRow& row, int64_t i) {
  const double lse = static_cast<double>(row.maximum) + std::log(row.exponentials);
  const double nll = lse - static_cast<double>(row.target);
  double loss = nll + args.spec.z_loss * lse * lse;
  if (const double smoothing = args.spec.label_smoothing; smoothing > 0.0) {
    const double mean = row.logits / static_cast<double>(args.spec.vocab);
    loss += smoothing * (static_cast<double>(row.target) - mean);
  }
  args.loss[i] = static_cast<float>(loss);
  if (args.nll != nullptr) args.nll[i] = static_cast<float>(nll);
  args.statistics[2 * i] = row.maximum;
  args.statistics[2 * i + 1] = static_cast<float>(row.exponentials);
  if (args.hits == nullptr) return;
  const bool hit = row.at_largest == args.targets[i] && !std::isnan(row.exponentials);
  args.hits[i] = hit ? 1.0f : 0.0f;
}

void AddRow(const CutCrossEntropyForwardArgs& args, const CutPanel& panel, int64_t i, CutRow* row) {
  if (panel.first == 0) *row = {0.0, 0.0, kNone, 0.0f, kNone, -1};
  const bool last = panel.first + panel.columns == args.spec.vocab;
  const int32_t target = args.targets[i];
  if (target == kIgnoreTarget) {
    if (last) WriteIgnoredRow(args, i);
    return;
  }
  const float k = args.spec.softcap;
  float* const z = static_cast<float*>(panel.values) + i * panel.ld;
  AddSums(ReadPanelRow(z, k, panel.columns), row);
  if (args.hits != nullptr) FindLargest(z, panel, row);
  if (target >= panel.first && target < panel.first + panel.columns) {
    const float logit = z[target - panel.first];
    row->target = k > 0.0f ? cpu::Cap(logit, k) : logit;
  }
  if (last) WriteRow(args, *row, i);
}

void ReplaceRowOf(const CutCrossEntropyBackwardArgs& args, const CutPanel& panel, int64_t i) {
  float* const z = static_cast<float*>(panel.values) + i * panel.ld;
  const int32_t target = args.targets[i];
  if (target == kIgnoreTarget) {
    std::fill(z, z + panel.columns, 0.0f);
    return;
  }
  const CutCrossEntropySpec& spec = args.spec;
  const double weight = args.row_weights == nullptr ? 1.0 : args.row_weights[i];
  const double scale = *args.gradient_scale * weight, smoothing = spec.label_smoothing;
  const float maximum = args.statistics[2 * i];
  const double exponentials = args.statistics[2 * i + 1];
  const double lse = static_cast<double>(maximum) + std::log(exponentials);
  const double factor = scale * (1.0 + 2.0 * spec.z_loss * lse) / exponentials;
  const double shift = scale * smoothing / static_cast<double>(spec.vocab);
  const bool has_target = target >= panel.first && target < panel.first + panel.columns;
  const float logit = has_target ? z[target - panel.first] : 0.0f, k = spec.softcap;
  const RowFactors row{maximum, static_cast<float>(factor), static_cast<float>(shift)};
  if (k > 0.0f) {
    ReplaceCappedPanelRow(row, k, z, panel.columns);
  } else {
    ReplacePanelRow(row, z, panel.columns);
  }
  if (!has_target) return;
  // In double: p_y - 1 cancels.
  const float z_target = k > 0.0f ? cpu::Cap(logit, k) : logit;
  const double ratio = k > 0.0f ? static_cast<double>(z_target) / k : 0.0;
  const double dz = factor * static_cast<double>(cpu::Exp(z_target - maximum)) - shift -
                    scale * (1.0 - smoothing);
  z[target - panel.first] = static_cast<float>(dz * (1.0 - ratio * ratio));
}

void RequireCutTargets(const CutCrossEntropyForwardArgs& args) {
  for (int64_t i = 0; i < args.rows; ++i) {
    const int32_t target = args.targets[i];
    if (target != kIgnoreTarget && (target < 0 || target >= args.spec.vocab)) {
      throw std::invalid_argument("CutCrossEntropyForward: row " + std::to_string(i) +
                                  " has target " + std::to_string(target) +
                                  ", the vocabulary has " + std::to_string(args.spec.vocab));
    }
  }
}

}  // namespace

bool CutCrossEntropySupports(const CutCrossEntropySpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.weight_gradient_dtype == DType::kFloat32 &&
         spec.hidden > 0 && spec.logit_scale > 0.0f &&
         CrossEntropySupports({.dtype = spec.dtype,
                               .vocab = spec.vocab,
                               .label_smoothing = spec.label_smoothing,
                               .z_loss = spec.z_loss,
                               .softcap = spec.softcap});
}

void AddCutPanel(const CutCrossEntropyForwardArgs& args, const CutSpace& space,
                 const CutPanel& panel, Stream* /*stream*/) {
  auto* const rows = static_cast<CutRow*>(space.rows);
  cpu::ParallelFor(args.rows, 8 * panel.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) AddRow(args, panel, i, &rows[i]);
  });
}

void ReplaceCutPanel(const CutCrossEntropyBackwardArgs& args, const CutPanel& panel,
                     Stream* /*stream*/) {
  cpu::ParallelFor(args.rows, 8 * panel.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ReplaceRowOf(args, panel, i);
  });
}

void CutCrossEntropyForward(const CutCrossEntropyForwardArgs& args, Stream* stream) {
  if (!ValidateCut(args)) return;
  RequireCutTargets(args);
  PlainCutForward(args, stream);
}

void CutCrossEntropyBackward(const CutCrossEntropyBackwardArgs& args, Stream* stream) {
  if (!ValidateCut(args)) return;
  CutGradients(args, PlainCutGradient, stream);
}

}  // namespace coxswain::kernels
