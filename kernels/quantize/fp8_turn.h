// Codes of a matrix in FP8, turned: the operand of products over its rows from codes that are there
// already, as those of a weight that ranks gather. A byte is moved as it is, so that scales of
// kTensor and kBlock hold for both (fp8.h).
#ifndef COXSWAIN_KERNELS_QUANTIZE_FP8_TURN_H_
#define COXSWAIN_KERNELS_QUANTIZE_FP8_TURN_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels {

struct Fp8TurnArgs {
  int64_t rows = 0, cols = 0;
  const uint8_t* codes = nullptr;  // [rows, cols], rows right behind each other
  uint8_t* turned = nullptr;       // [cols, Fp8Stride(rows)], aligned to 16 bytes; not `codes`
};
// Reads and writes each byte once. Codes between rows and their stride become 0. An extent of 0
// does nothing. Throws std::invalid_argument where an extent is negative.
void Fp8Turn(const Fp8TurnArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_QUANTIZE_FP8_TURN_H_
