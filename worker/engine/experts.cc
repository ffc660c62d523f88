#include "worker/engine/experts.h"

#include <algorithm>

#include "kernels/bias.h"
#include "kernels/convert.h"
#include "kernels/device.h"
#include "kernels/gemm.h"
#include "kernels/sort_by_expert.h"
#include "worker/engine/dense.h"
#include "worker/engine/expert_use.h"
#include "worker/engine/op_specs.h"
#include "worker/engine/quantized_weights.h"
#include "worker/engine/router_losses.h"

namespace coxswain::engine {
namespace {

// The product with the router's weight, whose output is float32 whatever the compute dtype.
void RouterLogits(const Sweep& sweep, const BoundRoute& op) {
  kernels::GemmArgs gemm;
  gemm.spec.dtype = sweep.model.compute_dtype;
  gemm.spec.output_dtype = kernels::DType::kFloat32;
  gemm.spec.transpose_b = true;
  gemm.m = sweep.batch.tokens;
  gemm.n = op.spec.experts;
  gemm.k = op.width;
  gemm.a = op.x;
  gemm.lda = op.width;
  gemm.b = op.router->weight.value;
  gemm.ldb = op.width;
  gemm.c = op.logits;
  gemm.ldc = op.spec.experts;
  gemm.bias = op.router->bias.value;
  gemm.workspace = sweep.buffers.scratch;
  kernels::Gemm(gemm, sweep.stream);
}

int64_t RowsOf(const Sweep& sweep, const RoutedRows& rows) {
  return sweep.batch.tokens * rows.chosen;
}

kernels::SortByExpertSpec SortSpec(const BoundRoute& op) {
  return {.experts = op.spec.experts, .chosen = op.spec.chosen};
}

void Sort(const Sweep& sweep, const BoundRoute& op) {
  kernels::SortByExpertArgs sort;
  sort.spec = SortSpec(op);
  sort.tokens = sweep.batch.tokens;
  sort.ids = op.ids;
  sort.order = op.rows.order;
  sort.places = op.rows.places;
  sort.offsets = op.rows.offsets;
  sort.counts = op.counts;
  sort.workspace = sweep.buffers.scratch;
  kernels::SortByExpert(sort, sweep.stream);
}

void RouterBiasGradient(const Sweep& sweep, const BoundRoute& op) {
  const Tensor& tensor = op.router->bias;
  if (tensor.gradient == nullptr) return;
  kernels::BiasBackwardArgs bias;
  bias.spec = RouterBiasSpec(tensor);
  bias.rows = sweep.batch.tokens;
  bias.columns = bias.ldy = op.spec.experts;
  bias.dy = op.dlogits;
  bias.dbias = tensor.gradient;
  bias.workspace = sweep.buffers.scratch;
  kernels::BiasBackward(bias, sweep.stream);
}

// The gradient of the logits as an operand of products.
const void* ScoreGradient(const Sweep& sweep, const BoundRoute& op) {
  if (sweep.model.compute_dtype == kernels::DType::kFloat32) return op.dlogits;
  kernels::Convert({.from = kernels::DType::kFloat32,
                    .to = sweep.model.compute_dtype,
                    .count = sweep.batch.tokens * op.spec.experts,
                    .in = op.dlogits,
                    .out = op.dscores},
                   sweep.stream);
  return op.dscores;
}

}  // namespace

void RouteForward(const Sweep& sweep, const BoundRoute& op) {
  RouterLogits(sweep, op);
  kernels::RouteForwardArgs route;
  route.spec = op.spec;
  route.tokens = sweep.batch.tokens;
  route.logits = op.logits;
  route.bias = op.correction;
  // A generated token is no padding.
  route.padding = sweep.cache == CacheUse::kRead ? nullptr : sweep.buffers.padding;
  route.ids = op.ids;
  route.weights = op.rows.weights;
  kernels::RouteForward(route, sweep.stream);
  Sort(sweep, op);
  if (sweep.batch.train) AddExpertUse(sweep, op);
  if (HasRouterLosses(sweep)) AddRouterRows(sweep, op);
}

void RouteBackward(const Sweep& sweep, const BoundRoute& op) {
  kernels::RouteBackwardArgs route;
  route.spec = op.spec;
  route.tokens = sweep.batch.tokens;
  route.logits = op.logits;
  route.ids = op.ids;
  route.dweights = op.rows.dweights;
  route.dlogits = op.dlogits;
  kernels::RouteBackward(route, sweep.stream);
  if (HasRouterLosses(sweep)) AddRouterGradient(sweep, op);
  RouterBiasGradient(sweep, op);
  const void* dscores = ScoreGradient(sweep, op);
  const Tensor& weight = op.router->weight;
  const Dense dense{&weight, sweep.batch.tokens, op.width, op.spec.experts};
  if (weight.gradient != nullptr) {
    DenseWeightGradient(sweep, dense, {dscores, op.x, FindsGradient(sweep, weight)});
  }
  if (op.dx != nullptr) DenseInputGradient(sweep, dense, {dscores, op.dx, op.accumulates});
}

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

void LinearOfRange(const Sweep& sweep, const BoundGroupedLinear& op, const ExpertRange& range) {
  const Tensor& bias = op.linear->bias;
  kernels::GroupedLinearForwardArgs linear;
  linear.spec = op.spec;
  linear.spec.experts = range.count;
  linear.rows = RowsOf(sweep, op.rows);
  linear.offsets = op.rows.offsets + range.first;
  linear.x = op.x;
  linear.weight = range.weight;
  if (bias.value != nullptr) {
    linear.bias = static_cast<const char*>(bias.value) +
                  range.first * op.spec.out_features * kernels::DTypeBytes(bias.dtype);
  }
  linear.y = op.y;
  linear.zeros_behind = range.last;
  kernels::GroupedLinearForward(linear, sweep.stream);
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
  ForExpertRanges(sweep, op, [&](const ExpertRange& range) { LinearOfRange(sweep, op, range); });
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
    kernels::GroupedLinearWeightGradient(gradient, sweep.stream);
  }
  if (bias.gradient != nullptr) {
    gradient.spec.grad_dtype = bias.gradient_dtype;
    gradient.accumulate = true;
    gradient.dweight = nullptr;
    gradient.dbias = bias.gradient;
    kernels::GroupedLinearWeightGradient(gradient, sweep.stream);
  }
  if (op.dx != nullptr) {
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
