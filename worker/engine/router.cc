#include "worker/engine/router.h"

#include "kernels/bias.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/sort_by_expert.h"
#include "worker/engine/dense.h"
#include "worker/engine/expert_use.h"
#include "worker/engine/op_specs.h"
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

}  // namespace coxswain::engine
