#include "worker/engine/optimizer.h"

#include "kernels/adamw.h"
#include "kernels/global_norm.h"

namespace coxswain::engine {

void FillTensorLists(const plan::Plan& plan, const ParameterLayout& layout,
                     const std::vector<Part>& parts, const Buffers& buffers,
                     kernels::Stream* stream) {
  std::vector<kernels::AdamWTensor> updates;
  int64_t chunks = 0;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& parameter = plan.parameters[i];
    if (!parameter.trainable()) continue;
    const plan::ParameterGroup& group = plan.groups[static_cast<size_t>(parameter.group)];
    const int64_t offset = layout.gradient_offset[i];
    kernels::AdamWTensor tensor;
    tensor.p = buffers.weights + layout.weight_offset[i];
    tensor.g = buffers.gradients + offset;
    tensor.m = buffers.adam_m + offset;
    tensor.v = buffers.adam_v + offset;
    tensor.n = parameter.elements();
    tensor.first_chunk = chunks;
    tensor.index = static_cast<uint32_t>(i);
    chunks += kernels::TensorChunks(tensor.n);
    tensor.lr_scale = group.lr_scale;
    tensor.weight_decay = group.weight_decay;
    updates.push_back(tensor);
  }
  std::vector<kernels::NormTensor> norms;
  chunks = 0;
  for (const Part& part : parts) {
    for (size_t i : part.parameters) {
      const int64_t elements = plan.parameters[i].elements();
      norms.push_back({buffers.gradients + layout.gradient_offset[i], elements, chunks});
      chunks += kernels::TensorChunks(elements);
    }
  }
  kernels::CopyMemory(buffers.adamw_tensors, updates.data(),
                      static_cast<int64_t>(updates.size() * sizeof(updates[0])), stream);
  kernels::CopyMemory(buffers.norm_tensors, norms.data(),
                      static_cast<int64_t>(norms.size() * sizeof(norms[0])), stream);
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

void UpdateParameters(const Buffers& buffers, const TensorRange& all, double max_grad_norm,
                      kernels::Stream* stream) {
  Scalars* scalars = buffers.scalars;
  kernels::DecideUpdateArgs decide;
  decide.sums = &scalars->norm_sums;
  decide.max_norm = max_grad_norm;
  decide.scalars = &scalars->optimizer;
  decide.norm = &scalars->norm;
  kernels::DecideUpdate(decide, stream);
  kernels::AdamWArgs adamw;
  adamw.tensors = buffers.adamw_tensors;
  adamw.count = all.count;
  adamw.chunks = all.chunks;
  adamw.scalars = &scalars->optimizer;
  kernels::AdamW(adamw, stream);
}

}  // namespace coxswain::engine
