#include "worker/engine/ops/experts.h"

#include <algorithm>

#include "worker/engine/memory/quantized_weights.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/fp8_experts.h"
#include "worker/engine/ops/gradient_sum.h"

namespace coxswain::engine {
namespace {

int64_t RowsOf(const Sweep& sweep, const RoutedRows& rows) {
  return sweep.batch.tokens * rows.chosen;
}

}  // namespace

void DispatchForward(const Sweep& sweep, const BoundDispatch& op) {
  kernels::DispatchForwardArgs dispatch;
  dispatch.spec = op.spec;
  dispatch.tokens = sweep.batch.tokens;
  dispatch.order = op.rows.order;
  dispatch.places = op.rows.places;
  dispatch.x = op.x;
  dispatch.rows = op.y;
  kernels::DispatchForward(dispatch, sweep.stream);
}

void DispatchBackward(const Sweep& sweep, const BoundDispatch& op) {
  if (op.dx == nullptr) return;
  kernels::DispatchBackwardArgs dispatch;
  dispatch.spec = op.spec;
  dispatch.tokens = sweep.batch.tokens;
  dispatch.places = op.rows.places;
  dispatch.drows = op.dy;
  dispatch.dx = op.dx;
  dispatch.accumulate = op.accumulates;
  kernels::DispatchBackward(dispatch, sweep.stream);
}

namespace {

// Experts [first, first + count) of an op.
struct ExpertRange {
  int64_t first = 0, count = 0;
  const void* weight = nullptr;  // [count, out, in]
  bool last = false;
};

// Calls product(range) for all experts: at once, or in ranges that are dequantised one by one.
template <typename Product>
void ForExpertRanges(const Sweep& sweep, const BoundGroupedLinear& op, const Product& product) {
  const ExpertLinear& linear = *op.linear;
  const int64_t experts = op.spec.experts;
  if (linear.quantized.packed.codes == nullptr) {
    return product(ExpertRange{0, experts, linear.weight.value, true});
  }
  const int64_t elements = op.spec.in_features * op.spec.out_features;
  char* const weight = sweep.buffers.expert_weights;
  for (int64_t first = 0; first < experts; first += sweep.model.experts_at_once) {
    const int64_t end = std::min(first + sweep.model.experts_at_once, experts);
    DequantizePart(linear.quantized, {first * elements, end * elements}, op.spec.dtype, weight,
                   sweep.stream);
    product(ExpertRange{first, end - first, weight, end == experts});
  }
}

// [count, out]; null without.
const void* BiasOfRange(const BoundGroupedLinear& op, const ExpertRange& range) {
  const Tensor& bias = op.linear->bias;
  if (bias.value == nullptr) return nullptr;
  return static_cast<const char*>(bias.value) +
         range.first * op.spec.out_features * kernels::DTypeBytes(bias.dtype);
}

void LinearOfRange(const Sweep& sweep, const BoundGroupedLinear& op, const ExpertRange& range) {
  kernels::GroupedLinearForwardArgs linear;
  linear.spec = op.spec;
  linear.spec.experts = range.count;
  linear.rows = RowsOf(sweep, op.rows);
  linear.offsets = op.rows.offsets + range.first;
  linear.x = op.x;
  linear.weight = range.weight;
  linear.bias = BiasOfRange(op, range);
  linear.y = op.y;
  linear.zeros_behind = range.last;
  kernels::GroupedLinearForward(linear, sweep.stream);
}

void GatedLinearOfRange(const Sweep& sweep, const BoundGroupedGatedLinear& op,
                        const ExpertRange& range) {
  kernels::GroupedGatedLinearForwardArgs gated;
  gated.spec = op.spec;
  gated.spec.experts = range.count;
  gated.rows = RowsOf(sweep, op.linear.rows);
  gated.offsets = op.linear.rows.offsets + range.first;
  gated.x = op.linear.x;
  gated.weight = range.weight;
  gated.bias = BiasOfRange(op.linear, range);
  gated.gate_up = op.gate.gate_up;
  gated.wants_gate_up = op.keeps_gate_up && sweep.batch.train;
  gated.y = op.gate.y;
  gated.zeros_behind = range.last;
  kernels::GroupedGatedLinearForward(gated, sweep.stream);
}

void InputGradientOfRange(const Sweep& sweep, const BoundGroupedLinear& op,
                          const ExpertRange& range) {
  kernels::GroupedLinearInputGradientArgs input;
  input.spec = op.spec;
  input.spec.experts = range.count;
  input.rows = RowsOf(sweep, op.rows);
  input.offsets = op.rows.offsets + range.first;
  input.dy = op.dy;
  input.weight = range.weight;
  input.dx = op.dx;
  input.zeros_behind = range.last;
  kernels::GroupedLinearInputGradient(input, sweep.stream);
}

}  // namespace

void ExpertsForward(const Sweep& sweep, const BoundGroupedLinear& op) {
  if (RunsInFp8(sweep, op)) {
    Fp8ExpertsForward(sweep, op);
  } else {
    ForExpertRanges(sweep, op, [&](const ExpertRange& range) { LinearOfRange(sweep, op, range); });
  }
  if (op.h == nullptr) return;
  kernels::GroupedLoraForwardArgs adapter;
  adapter.spec = op.adapter;
  adapter.rows = RowsOf(sweep, op.rows);
  adapter.offsets = op.rows.offsets;
  adapter.x = op.x;
  adapter.a = op.linear->a.value;
  adapter.b = op.linear->b.value;
  adapter.h = op.h;
  adapter.y = op.y;
  kernels::GroupedLoraForward(adapter, sweep.stream);
}

void GatedExpertsForward(const Sweep& sweep, const BoundGroupedGatedLinear& op) {
  ForExpertRanges(sweep, op.linear,
                  [&](const ExpertRange& range) { GatedLinearOfRange(sweep, op, range); });
}

namespace {

// Adds to op.dx.
void AdapterBackward(const Sweep& sweep, const BoundGroupedLinear& op) {
  kernels::GroupedLoraBackwardArgs adapter;
  adapter.spec = op.adapter;
  adapter.rows = RowsOf(sweep, op.rows);
  adapter.offsets = op.rows.offsets;
  adapter.x = op.x;
  adapter.a = op.linear->a.value;
  adapter.b = op.linear->b.value;
  adapter.h = op.h;
  adapter.dy = op.dy;
  adapter.da = op.linear->a.gradient;
  adapter.db = op.linear->b.gradient;
  adapter.dx = op.dx;
  adapter.workspace = sweep.buffers.scratch;
  kernels::GroupedLoraBackward(adapter, sweep.stream);
}

// The gradients of as many experts at a time as Buffers::gradient_term holds, in float32, each
// added to the stack's.
void AddExpertTerms(const Sweep& sweep, const Tensor& weight,
                    const kernels::GroupedLinearWeightGradientArgs& all) {
  const kernels::Workspace& term = sweep.buffers.gradient_term;
  const int64_t matrix = all.spec.in_features * all.spec.out_features;
  const int64_t bytes = matrix * kernels::DTypeBytes(kernels::DType::kFloat32);
  const int64_t held = std::max<int64_t>(1, term.bytes / bytes);
  const kernels::GradientSum sum = SumOf(sweep, weight);
  for (int64_t first = 0; first < all.spec.experts; first += held) {
    kernels::GroupedLinearWeightGradientArgs range = all;
    range.spec.experts = std::min(held, all.spec.experts - first);
    range.spec.grad_dtype = kernels::DType::kFloat32;
    range.offsets = all.offsets + first;
    range.accumulate = false;
    range.dweight = term.data;
    kernels::GroupedLinearWeightGradient(range, sweep.stream);
    kernels::AddToGradient({.count = range.spec.experts * matrix,
                            .term = static_cast<const float*>(term.data),
                            .accumulate = all.accumulate,
                            .gradient = static_cast<char*>(weight.gradient) +
                                        first * matrix * kernels::DTypeBytes(weight.gradient_dtype),
                            .sum = sum.From(first * matrix)},
                           sweep.stream);
  }
}

}  // namespace

void ExpertsBackward(const Sweep& sweep, const BoundGroupedLinear& op) {
  const Tensor &weight = op.linear->weight, &bias = op.linear->bias;
  kernels::GroupedLinearWeightGradientArgs gradient;
  gradient.spec = op.spec;
  gradient.rows = RowsOf(sweep, op.rows);
  gradient.offsets = op.rows.offsets;
  gradient.dy = op.dy;
  gradient.x = op.x;
  if (weight.gradient != nullptr) {
    gradient.spec.grad_dtype = weight.gradient_dtype;
    gradient.accumulate = FindsGradient(sweep, weight);
    gradient.dweight = weight.gradient;
    if (TakesTerms(sweep, weight)) {
      AddExpertTerms(sweep, weight, gradient);
    } else {
      kernels::GroupedLinearWeightGradient(gradient, sweep.stream);
    }
  }
  if (bias.gradient != nullptr) {
    gradient.spec.grad_dtype = bias.gradient_dtype;
    gradient.accumulate = true;
    gradient.dweight = nullptr;
    gradient.dbias = bias.gradient;
    kernels::GroupedLinearWeightGradient(gradient, sweep.stream);
  }
  if (op.dx != nullptr && RunsInFp8(sweep, op)) {
    Fp8ExpertsInputGradient(sweep, op);
  } else if (op.dx != nullptr) {
    ForExpertRanges(sweep, op,
                    [&](const ExpertRange& range) { InputGradientOfRange(sweep, op, range); });
  }
  if (op.h != nullptr) AdapterBackward(sweep, op);
}

void CombineForward(const Sweep& sweep, const BoundCombine& op) {
  kernels::CombineForwardArgs combine;
  combine.spec = op.spec;
  combine.tokens = sweep.batch.tokens;
  combine.places = op.rows.places;
  combine.weights = op.rows.weights;
  combine.rows = op.x;
  combine.y = op.y;
  kernels::CombineForward(combine, sweep.stream);
}

void CombineBackward(const Sweep& sweep, const BoundCombine& op) {
  kernels::CombineBackwardArgs combine;
  combine.spec = op.spec;
  combine.tokens = sweep.batch.tokens;
  combine.order = op.rows.order;
  combine.places = op.rows.places;
  combine.weights = op.rows.weights;
  combine.rows = op.x;
  combine.dy = op.dy;
  combine.drows = op.dx;
  combine.dweights = op.wants_weights ? op.rows.dweights : nullptr;
  kernels::CombineBackward(combine, sweep.stream);
}

}  // namespace coxswain::engine
