// Matrices as the copy engine sees them, and the boxes of them that are copied: of bfloat16 where
// nothing else is said.
#ifndef COXSWAIN_KERNELS_CUDA_TILES_TENSOR_MAP_H_
#define COXSWAIN_KERNELS_CUDA_TILES_TENSOR_MAP_H_

#include <cuda.h>

#include <cstdint>

#include "kernels/dtype.h"

namespace coxswain::kernels::cuda {

// A __grid_constant__ parameter of a kernel.
using TensorMap = CUtensorMap;

struct Boxes {
  const void* data = nullptr;  // aligned to 16 bytes
  int64_t rows = 0, columns = 0;
  int64_t stride = 0;   // elements between rows, a multiple of 8
  int box_rows = 0;     // at most 256
  int box_columns = 0;  // 32 or 64
};
// The 16-byte chunks of a box's rows lie in shared memory in an order that changes from row to row,
// with a period of 8 rows (PTX ISA, "Swizzling modes"): 128-byte rows have chunk c of row r at
// c ^ (r % 8), 64-byte rows at c ^ (r / 2 % 4). Throws std::invalid_argument or DeviceError.
TensorMap MakeTensorMap(const Boxes& boxes);

// Heads of `dim` elements side by side in rows of tokens, and boxes of 64 elements of box_heads
// heads of box_tokens tokens: in shared memory a row of 128 bytes per head, all heads of a token
// after each other, in the order of 128-byte rows above.
struct HeadBoxes {
  const void* data = nullptr;  // aligned to 16 bytes
  int64_t tokens = 0, heads = 0, dim = 0;
  int64_t stride = 0;  // elements between tokens, a multiple of 8
  int box_tokens = 0, box_heads = 0;
};
TensorMap MakeHeadMap(const HeadBoxes& boxes);

// Matrices of the same extents, and boxes of one or more of them; also windows of one matrix, a
// fixed number of rows from each row on: they lie a row apart. A box may be read from before row 0
// on, as zeros, but not stored: what is stored starts within.
struct StackBoxes {
  const void* data = nullptr;  // aligned to 16 bytes
  int64_t matrices = 0, rows = 0, columns = 0;
  int64_t stride = 0, matrix_stride = 0;  // elements between rows, between matrices, of 16 bytes
  int box_rows = 0;                       // at most 256
  DType dtype = DType::kBFloat16;
  int box_row_bytes = 128;  // of columns: 64 or 128
  int box_matrices = 1;     // behind each other in shared memory
};
TensorMap MakeStackMap(const StackBoxes& boxes);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TILES_TENSOR_MAP_H_
