// An adapter of rank r makes logits x W^T + bias + scale (x A^T) B^T. The product W + scale B A is
// not formed: in bfloat16 it would lose what is small beside W.
#include "worker/engine/ops/router.h"

#include "kernels/experts/expert_rows.h"
#include "kernels/products/bias.h"
#include "kernels/products/gemm.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/expert_use.h"
#include "worker/engine/ops/op_specs.h"
#include "worker/engine/ops/router_losses.h"

namespace coxswain::engine {
namespace {

// logits += x W^T + bias, W [experts, in] the router's weight or B of its adapter.
struct LogitsArgs {
  const void* x = nullptr;     // [T, in]
  const void* w = nullptr;     // [E, in]
  const void* bias = nullptr;  // [E]; null: none
  int64_t in = 0;
  bool accumulate = true;  // false: overwritten
};

// The output is float32 whatever the compute dtype.
void AddLogits(const Sweep& sweep, const BoundRoute& op, const LogitsArgs& args) {
  kernels::GemmArgs gemm;
  gemm.spec.dtype = sweep.model.compute_dtype;
  gemm.spec.output_dtype = kernels::DType::kFloat32;
  gemm.spec.transpose_b = true;
  gemm.m = sweep.batch.tokens;
  gemm.n = op.spec.experts;
  gemm.k = args.in;
  gemm.a = args.x;
  gemm.lda = args.in;
  gemm.b = args.w;
  gemm.ldb = args.in;
  gemm.beta = args.accumulate ? 1.0f : 0.0f;
  gemm.c = op.logits;
  gemm.ldc = op.spec.experts;
  gemm.bias = args.bias;
  gemm.workspace = sweep.buffers.scratch;
  kernels::Gemm(gemm, sweep.stream);
}

// The factors of an adapter: h = scale x A^T, which B takes to logits.
struct Factors {
  Dense a, b;
};
Factors FactorsOf(const Sweep& sweep, const BoundRoute& op) {
  const int64_t tokens = sweep.batch.tokens, rank = sweep.model.lora_rank;
  return {.a = {.weight = &op.router->a,
                .rows = tokens,
                .in = op.width,
                .out = rank,
                .scale = static_cast<float>(sweep.model.lora_scale)},
          .b = {.weight = &op.router->b, .rows = tokens, .in = rank, .out = op.spec.experts}};
}

void RouterLogits(const Sweep& sweep, const BoundRoute& op) {
  AddLogits(sweep, op,
            {.x = op.x,
             .w = op.router->weight.value,
             .bias = op.router->bias.value,
             .in = op.width,
             .accumulate = false});
  if (op.h == nullptr) return;
  DenseForward(sweep, FactorsOf(sweep, op).a, {.x = op.x, .y = op.h});
  AddLogits(sweep, op, {.x = op.h, .w = op.router->b.value, .in = sweep.model.lora_rank});
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

// Gradients of A and B, which accumulate, and of x, to which that through W was written.
void AdapterGradients(const Sweep& sweep, const BoundRoute& op, const void* dscores) {
  const Factors factors = FactorsOf(sweep, op);
  DenseWeightGradient(sweep, factors.b, {.dy = dscores, .x = op.h, .accumulate = true});
  DenseInputGradient(sweep, factors.b, {.dy = dscores, .dx = op.dh});
  DenseWeightGradient(sweep, factors.a, {.dy = op.dh, .x = op.x, .accumulate = true});
  if (op.dx == nullptr) return;
  DenseInputGradient(sweep, factors.a, {.dy = op.dh, .dx = op.dx, .accumulate = true});
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
  if (op.dh != nullptr) AdapterGradients(sweep, op, dscores);
}

}  // namespace coxswain::engine
