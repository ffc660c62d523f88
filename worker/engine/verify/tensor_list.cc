#include "worker/engine/verify/tensor_list.h"

#include "kernels/device.h"
#include "kernels/optimizer/global_norm.h"

namespace coxswain::engine {

TensorList WriteTensorList(const std::vector<VerifiedTensor>& tensors, const ParameterStore& store,
                           const ListedElements& listed, kernels::NormTensor* out) {
  std::vector<kernels::NormTensor> records;
  TensorList list{out, static_cast<int64_t>(tensors.size()), 0};
  for (size_t t = 0; t < tensors.size(); ++t) {
    const Values piece = (store.*listed.values)(tensors[t].parameter);
    const int64_t count = listed.count(t, piece.elements);
    records.push_back({piece.data, count, list.chunks, piece.dtype});
    list.chunks += kernels::TensorChunks(count);
  }
  kernels::CopyMemory(out, records.data(),
                      static_cast<int64_t>(records.size() * sizeof(records[0])), nullptr);
  return list;
}

TensorList ListGradients(const std::vector<VerifiedTensor>& tensors, const ParameterStore& store,
                         const Buffers& buffers) {
  const auto all = [](size_t, int64_t elements) { return elements; };
  return WriteTensorList(tensors, store, {&ParameterStore::ReducedGradient, all},
                         buffers.norm_tensors);
}

void NormOf(const TensorList& list, const Buffers& buffers, kernels::NormSums* sums,
            kernels::Stream* stream) {
  kernels::GlobalNormArgs norm;
  norm.tensors = list.tensors;
  norm.count = list.count;
  norm.chunks = list.chunks;
  norm.sums = sums;
  norm.workspace = {buffers.norm_chunks, kernels::GlobalNormWorkspaceBytes(list.chunks)};
  kernels::GlobalNorm(norm, stream);
}

}  // namespace coxswain::engine
