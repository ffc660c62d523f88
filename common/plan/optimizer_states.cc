#include "common/plan/optimizer_states.h"

#include <algorithm>

#include "common/plan/buffer_names.h"
#include "kernels/tensor_records.h"

namespace coxswain::plan {
namespace {

// bitsandbytes 0.50: AdamW8bit keeps float32 states of tensors below min_8bit_size.
constexpr int64_t kLeastInBlocks = 4096;

// The first update's bias-corrected moments are the gradient and its square: m / (sqrt(v) + eps).
double AdamScale(double gradient, const Plan& plan) {
  return gradient == 0 ? 0 : gradient / (gradient + plan.eps);
}

}  // namespace

// engine/optimizer.cc binds states in this order.
const std::vector<Optimizer>& Optimizers() {
  using enum Storage;
  using enum StateOf;
  constexpr int64_t kBlock = kernels::kStateBlock;
  static const auto& table = *new std::vector<Optimizer>{
      {.kind = OptimizerKind::kAdamW,
       .states = {{".m", buffers::kAdamM, kFloat32}, {".v", buffers::kAdamV, kFloat32}},
       .launch = UpdateLaunch::kAdamW,
       .scale = AdamScale,
       .record_bytes = sizeof(kernels::AdamWTensor)},
      {.kind = OptimizerKind::kAdamWBf16,
       .states = {{".m", buffers::kAdamM, kBfloat16}, {".v", buffers::kAdamV, kBfloat16}},
       .launch = UpdateLaunch::kAdamW,
       .scale = AdamScale,
       .record_bytes = sizeof(kernels::AdamWTensor)},
      {.kind = OptimizerKind::kAdamW8bit,
       .states = {{".m", buffers::kAdamM, kDynamic8, kInBlocks},
                  {".m_absmax", buffers::kAdamMAbsmax, kFloat32, kInBlocks, kBlock},
                  {".v", buffers::kAdamV, kDynamic8, kInBlocks},
                  {".v_absmax", buffers::kAdamVAbsmax, kFloat32, kInBlocks, kBlock},
                  {".m", buffers::kAdamMSmall, kFloat32, kNotInBlocks},
                  {".v", buffers::kAdamVSmall, kFloat32, kNotInBlocks}},
       .launch = UpdateLaunch::kAdamW8bit,
       .scale = AdamScale,
       .record_bytes = sizeof(kernels::AdamW8bitTensor),
       .block = kBlock,
       .least_in_blocks = kLeastInBlocks},
  };
  return table;
}

const Optimizer& OptimizerOf(const Plan& plan) {
  const std::vector<Optimizer>& table = Optimizers();
  return *std::find_if(table.begin(), table.end(), [&](const Optimizer& optimizer) {
    return optimizer.kind == plan.optimizer;
  });
}

bool ContinuesPack(const Plan& plan, size_t i) {
  if (i == 0) return false;
  const model::Parameter &before = plan.parameters[i - 1], &parameter = plan.parameters[i];
  return parameter.packed != model::kNoTensor && parameter.packed == before.packed &&
         parameter.part == before.part && parameter.layer == before.layer;
}

std::vector<bool> InBlocks(const Plan& plan) {
  const Optimizer& optimizer = OptimizerOf(plan);
  std::vector<bool> in_blocks(plan.parameters.size(), false);
  if (optimizer.block == 1) return in_blocks;
  int64_t first = 0;  // of the tensor in its whole
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    first = ContinuesPack(plan, i) ? first + plan.parameters[i - 1].elements() : 0;
    in_blocks[i] = parameter.trainable() && parameter.elements() >= optimizer.least_in_blocks &&
                   first % optimizer.block == 0;
  }
  return in_blocks;
}

int64_t StateBytes(const Optimizer& optimizer, int64_t elements, bool in_blocks) {
  int64_t bytes = 0;
  for (const OptimizerState& state : optimizer.states) {
    if (state.IsOf(in_blocks)) bytes += StorageBytes(state.storage, state.Elements(elements));
  }
  return bytes;
}

}  // namespace coxswain::plan
