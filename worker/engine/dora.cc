#include "worker/engine/dora.h"

#include <cmath>
#include <map>
#include <vector>

#include "kernels/device.h"
#include "kernels/dora.h"
#include "worker/engine/linear.h"
#include "worker/engine/weights.h"

namespace coxswain::engine {
namespace {

std::vector<const Linear*> AdaptedLinears(const Model& model) {
  std::vector<const Linear*> adapted;
  for (const Linear* linear : Linears(model)) {
    if (linear->adapters.members > 0) adapted.push_back(linear);
  }
  return adapted;
}

void InitMagnitudes(const plan::Plan& plan, const Model& model, const Buffers& buffers,
                    const ParameterStore& store) {
  std::map<const void*, int64_t> first_column;  // by the values of a magnitude
  int64_t columns = 0;
  for (const Linear* linear : AdaptedLinears(model)) {
    const Adapters& adapters = linear->adapters;
    for (int64_t j = 0; j < adapters.members; ++j) {
      first_column[adapters.magnitude[j].value] = adapters.dora_column + adapters.column[j];
    }
    columns = adapters.dora_column + linear->out;
  }
  std::vector<float> norms(static_cast<size_t>(columns));
  kernels::CopyMemory(norms.data(), buffers.dora.squares, columns * 4, nullptr);
  for (float& norm : norms) norm = std::sqrt(norm);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!IsMagnitude(plan.parameters[i].role)) continue;
    store.Upload(i, norms.data() + first_column.at(store.Compute(i).data));
  }
}

}  // namespace

void InitDora(const plan::Plan& plan, const Model& model, const Buffers& buffers,
              const ParameterStore& store, kernels::Stream* stream) {
  if (!model.dora) return;
  for (const Linear* linear : AdaptedLinears(model)) {
    kernels::DoraRowSquares({.dtype = model.dtype,
                             .rows = linear->out,
                             .columns = linear->in,
                             .w = linear->weight.value,
                             .squares = buffers.dora.squares + linear->adapters.dora_column},
                            stream);
  }
  kernels::Synchronize(stream);
  if (plan.lora.init_from.empty()) InitMagnitudes(plan, model, buffers, store);
}

void UpdateDoraFactors(const Model& model, const Buffers& buffers, kernels::Stream* stream) {
  for (const Linear* linear : AdaptedLinears(model)) {
    const Adapters& adapters = linear->adapters;
    kernels::DoraFactorsArgs factors;
    factors.spec = LoraSpec(model, *linear, /*train=*/false);
    factors.w = linear->weight.value;
    factors.squares = buffers.dora.squares + adapters.dora_column;
    factors.a = adapters.a.value;
    for (int64_t j = 0; j < adapters.members; ++j) {
      factors.b[j] = adapters.b[j].value;
      factors.magnitude[j] = adapters.magnitude[j].value;
    }
    factors.norm = buffers.dora.norm + adapters.dora_column;
    factors.factor = buffers.dora.factor + adapters.dora_column;
    factors.workspace = buffers.scratch;
    kernels::DoraFactors(factors, stream);
  }
}

}  // namespace coxswain::engine
