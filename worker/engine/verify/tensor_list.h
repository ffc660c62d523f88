// Lists in device memory for norms and checksums: all verified tensors in their order, each with
// this rank's elements. A tensor without elements on this rank has an empty entry.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFY_TENSOR_LIST_H_
#define COXSWAIN_WORKER_ENGINE_VERIFY_TENSOR_LIST_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/tensor_records.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/verify/verified_tensors.h"

namespace coxswain::engine {

struct TensorList {
  kernels::NormTensor* tensors = nullptr;  // [count]
  int64_t count = 0, chunks = 0;           // chunks: kernels/tensor_records.h
};

// Names the elements of each tensor in a list: [0, count) of the values that `values` returns.
// WriteTensorList writes `out`, [tensors], and blocks.
struct ListedElements {
  Values (ParameterStore::*values)(size_t parameter) const;
  std::function<int64_t(size_t tensor, int64_t elements)> count;
};
TensorList WriteTensorList(const std::vector<VerifiedTensor>& tensors, const ParameterStore& store,
                           const ListedElements& listed, kernels::NormTensor* out);

// The gradients of all pieces, in Buffers::norm_tensors.
TensorList ListGradients(const std::vector<VerifiedTensor>& tensors, const ParameterStore& store,
                         const Buffers& buffers);

// Writes sum of squares and non-finite count over the whole list into `sums`, and the input of
// TensorNorms into Buffers::norm_chunks.
void NormOf(const TensorList& list, const Buffers& buffers, kernels::NormSums* sums,
            kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFY_TENSOR_LIST_H_
