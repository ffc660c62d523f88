// Weights that are kept quantised (common/plan/storage.h): quantised into codes and scales once, at
// loading, and dequantised before every use.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_QUANTIZED_WEIGHTS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_QUANTIZED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

// Dequantises elements [elements.begin, elements.end) of a matrix to `out`. They are whole rows of
// INT8, and begin with a block of the other formats.
void DequantizePart(const QuantizedMatrix& matrix, plan::Range elements, kernels::DType dtype,
                    void* out, kernels::Stream* stream);

// Dequantises parameter i into the memory that sweeps read; not what is dequantised in ranges.
void Dequantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                size_t i, kernels::Stream* stream);

// Writes elements [first, first + count) of a parameter to `out`, in device memory.
using WriteElements = std::function<void(int64_t first, int64_t count, float* out)>;
// Quantises parameter i piece by piece and keeps this rank's owned part. With `whole` it keeps all,
// in the memory from which sweeps dequantise. The scratch of `buffers` must be bound. Blocks until
// done.
void Quantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
              size_t i, bool whole, const WriteElements& write);

// One matrix of a quantised checkpoint, in host memory.
struct PackedTensor {
  const uint8_t* codes = nullptr;    // plan::StorageBytes
  const uint8_t* scales = nullptr;   // plan::ScaleBytes; null: none
  const float* constants = nullptr;  // plan::ScaleConstants; null: none
};
// Copies codes and scales unchanged into the memory that Quantize writes. Blocks until done.
void UploadPacked(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                  size_t i, bool whole, const PackedTensor& tensor);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_QUANTIZED_WEIGHTS_H_
