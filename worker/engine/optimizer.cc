#include "worker/engine/optimizer.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "common/philox.h"
#include "kernels/adamw.h"
#include "kernels/global_norm.h"

namespace coxswain::engine {
namespace {

// In the order of the optimizer's row in common/plan/optimizer_states.cc.
void BindStates(const std::vector<Values>& states, kernels::AdamWTensor* tensor) {
  void** const fields[] = {&tensor->m, &tensor->v};
  for (size_t s = 0; s < states.size(); ++s) *fields[s] = states[s].data;
}

}  // namespace

void FillTensorLists(const plan::Plan& plan, const ParameterLayout& layout,
                     const std::vector<VerifiedGroup>& groups, const Buffers& buffers) {
  const ParameterStore store(plan, layout, buffers);
  std::vector<kernels::AdamWTensor> updates;
  int64_t chunks = 0;
  std::vector<size_t> order(plan.parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&plan](size_t i) {
    return plan.parameters[i].unit == plan::kEmbeddingUnit;
  });
  for (const size_t i : order) {
    if (!layout.HasPiece(plan, i)) continue;
    const plan::ParameterGroup& group = plan.groups[static_cast<size_t>(plan.parameters[i].group)];
    const Values weights = store.Weights(i), trained = store.Trained(i);
    const Values gradient = store.ReducedGradient(i);
    kernels::AdamWTensor tensor;
    tensor.p = weights.data;
    if (trained.data != weights.data) tensor.master = static_cast<float*>(trained.data);
    tensor.g = gradient.data;
    BindStates(store.States(i), &tensor);
    tensor.n = weights.elements;
    tensor.begin = weights.first;
    tensor.first_chunk = chunks;
    tensor.lr_scale = group.lr_scale;
    tensor.weight_decay = group.weight_decay;
    tensor.p_dtype = weights.dtype;
    tensor.g_dtype = gradient.dtype;
    tensor.index = static_cast<uint32_t>(i);
    chunks += kernels::TensorChunks(tensor.n);
    updates.push_back(tensor);
  }
  kernels::CopyMemory(buffers.adamw_tensors, updates.data(),
                      static_cast<int64_t>(updates.size() * sizeof(updates[0])), nullptr);
  FillNormTensors(layout, groups, store, &ParameterStore::ReducedGradient, buffers);
}

void FillNormTensors(const ParameterLayout& layout, const std::vector<VerifiedGroup>& groups,
                     const ParameterStore& store, Values (ParameterStore::*values)(size_t) const,
                     const Buffers& buffers) {
  std::vector<kernels::NormTensor> norms;
  int64_t chunks = 0;
  for (const VerifiedGroup& group : groups) {
    for (const size_t i : group.parameters) {
      if (layout.owned[i].count() == 0) continue;
      const Values piece = (store.*values)(i);
      norms.push_back({piece.data, piece.elements, chunks, piece.dtype});
      chunks += kernels::TensorChunks(piece.elements);
    }
  }
  kernels::CopyMemory(buffers.norm_tensors, norms.data(),
                      static_cast<int64_t>(norms.size() * sizeof(norms[0])), nullptr);
}

void ZeroGradients(const ParameterLayout& layout, const Buffers& buffers, kernels::Stream* stream) {
  kernels::SetMemory(buffers.gradients, 0, layout.map.gradients, stream);
}

void NormOf(const Buffers& buffers, const TensorRange& range, kernels::NormSums* sums,
            kernels::Stream* stream) {
  kernels::GlobalNormArgs norm;
  norm.tensors = buffers.norm_tensors + range.first;
  norm.count = range.count;
  norm.chunks = range.chunks;
  norm.sums = sums;
  norm.workspace = buffers.scratch;
  kernels::GlobalNorm(norm, stream);
}

void DecideUpdate(const Buffers& buffers, double max_grad_norm, kernels::Stream* stream) {
  Scalars* scalars = buffers.scalars;
  kernels::DecideUpdateArgs decide;
  decide.sums = &scalars->norm_sums;
  decide.max_norm = max_grad_norm;
  decide.scalars = &scalars->optimizer;
  decide.norm = &scalars->norm;
  kernels::DecideUpdate(decide, stream);
}

void UpdateParameters(const Buffers& buffers, const UpdateArgs& args, kernels::Stream* stream) {
  Scalars* scalars = buffers.scalars;
  const std::array<uint32_t, 2> key = PhiloxKey(args.seed, RandomPurpose::kStochasticRounding);
  kernels::AdamWArgs adamw;
  adamw.tensors = buffers.adamw_tensors + args.range.first;
  adamw.count = args.range.count;
  adamw.chunks = args.range.chunks;
  adamw.scalars = &scalars->optimizer;
  adamw.draws.key[0] = key[0];
  adamw.draws.key[1] = key[1];
  adamw.draws.step = &scalars->step;
  adamw.last = args.last;
  kernels::AdamW(adamw, stream);
}

}  // namespace coxswain::engine
