// Weights that are kept quantised (common/plan/storage.h): into codes and scales once, at loading,
// and out of them before every use.
#ifndef COXSWAIN_WORKER_ENGINE_QUANTIZED_WEIGHTS_H_
#define COXSWAIN_WORKER_ENGINE_QUANTIZED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

// Writes parameter i where sweeps read it.
void Dequantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                size_t i, kernels::Stream* stream);

// Writes elements [first, first + count) of a parameter to `out`, in device memory.
using WriteElements = std::function<void(int64_t first, int64_t count, float* out)>;
// Quantises parameter i piece by piece and keeps what this rank owns of it or, `whole`, all where
// it is dequantised from. `buffers` with its scratch bound. Blocks until done.
void Quantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
              size_t i, bool whole, const WriteElements& write);

// What a quantised checkpoint holds of one matrix, in host memory.
struct PackedTensor {
  const uint8_t* codes = nullptr;    // plan::StorageBytes
  const uint8_t* scales = nullptr;   // plan::ScaleBytes; null: none
  const float* constants = nullptr;  // plan::ScaleConstants; null: none
};
// Takes them as they are, into where Quantize writes. Blocks until done.
void UploadPacked(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                  size_t i, bool whole, const PackedTensor& tensor);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_QUANTIZED_WEIGHTS_H_
