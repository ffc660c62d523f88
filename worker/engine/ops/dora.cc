#include "worker/engine/ops/dora.h"

#include <cmath>
#include <vector>

#include "common/status_macros.h"
#include "kernels/device.h"
#include "kernels/lora/dora.h"
#include "worker/engine/memory/weights.h"
#include "worker/engine/ops/linear.h"

namespace coxswain::engine {
namespace {

std::vector<const Linear*> AdaptedLinears(const Model& model, int64_t layer) {
  const Block& block = model.blocks[static_cast<size_t>(layer)];
  std::vector<const Linear*> adapted;
  for (const auto& [id, linear] : block.linears) {
    if (!linear.adapters.members.empty()) adapted.push_back(&linear);
  }
  return adapted;
}

void RowSquares(const Model& model, const Buffers& buffers, int64_t layer,
                kernels::Stream* stream) {
  for (const Linear* linear : AdaptedLinears(model, layer)) {
    kernels::DoraRowSquares({.dtype = linear->weight.dtype,
                             .rows = linear->out,
                             .columns = linear->in,
                             .w = linear->weight.value,
                             .squares = buffers.dora.squares + linear->adapters.dora_column},
                            stream);
  }
  kernels::Synchronize(stream);
}

// Of one block: magnitudes of different blocks may share a slot.
void InitMagnitudes(const plan::Plan& plan, const Model& model, const Buffers& buffers,
                    const ParameterStore& store, int64_t layer) {
  for (const Linear* linear : AdaptedLinears(model, layer)) {
    const Adapters& adapters = linear->adapters;
    std::vector<float> norms(static_cast<size_t>(linear->out));
    kernels::CopyMemory(norms.data(), buffers.dora.squares + adapters.dora_column, 4 * linear->out,
                        nullptr);
    for (float& norm : norms) norm = std::sqrt(norm);
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      if (plan.parameters[i].layer != layer || !model::IsMagnitude(plan.parameters[i])) continue;
      for (const kernels::LoraMember& member : adapters.members) {
        if (member.magnitude != store.Compute(i).data) continue;
        store.Upload(i, norms.data() + member.column_offset + store.Loaded(i).begin);
      }
    }
  }
}

}  // namespace

absl::Status InitDora(const plan::Plan& plan, const Model& model, const Buffers& buffers,
                      const ParameterStore& store, kernels::Stream* stream) {
  if (!model.dora) return absl::OkStatus();
  for (int32_t layer = 0; layer < model.config.num_layers; ++layer) {
    if (plan.zero == 3) {
      RETURN_IF_ERROR(LoadWholeBlock(plan, layer, store));
    } else {
      store.DequantizeBlock(layer);
    }
    RowSquares(model, buffers, layer, stream);
    if (plan.lora.init_from.empty()) InitMagnitudes(plan, model, buffers, store, layer);
  }
  return absl::OkStatus();
}

void UpdateDoraFactors(const Sweep& sweep, int64_t layer) {
  if (!sweep.model.dora) return;
  const Buffers& buffers = sweep.buffers;
  for (const Linear* linear : AdaptedLinears(sweep.model, layer)) {
    const Adapters& adapters = linear->adapters;
    kernels::DoraFactorsArgs factors;
    factors.spec = LoraSpec(sweep.model, *linear, /*train=*/false);
    factors.w = linear->weight.value;
    factors.squares = buffers.dora.squares + adapters.dora_column;
    factors.a = adapters.a.value;
    factors.norm = buffers.dora.norm + adapters.dora_column;
    factors.factor = buffers.dora.factor + adapters.dora_column;
    factors.workspace = buffers.scratch;
    kernels::DoraFactors(factors, sweep.stream);
  }
}

}  // namespace coxswain::engine
