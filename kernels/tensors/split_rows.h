// Columns of rows, copied apart and together again.
//   first[t] = x[t, :n];  second[t] = x[t, n:];  backward: dx[t] = [dfirst[t], dsecond[t]]
#ifndef COXSWAIN_KERNELS_TENSORS_SPLIT_ROWS_H_
#define COXSWAIN_KERNELS_TENSORS_SPLIT_ROWS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct SplitRowsSpec {
  DType dtype = DType::kFloat32;
  int64_t first = 0, second = 0;  // columns of either
};
bool SplitRowsSupports(const SplitRowsSpec& spec);

struct SplitRowsForwardArgs {
  SplitRowsSpec spec = {};
  int64_t rows = 0;         // T
  const void* x = nullptr;  // [T, first + second]
  void* first = nullptr;    // [T, first]
  void* second = nullptr;   // [T, second]
};
void SplitRowsForward(const SplitRowsForwardArgs& args, Stream* stream);

struct SplitRowsBackwardArgs {
  SplitRowsSpec spec = {};
  int64_t rows = 0;
  const void* dfirst = nullptr;
  const void* dsecond = nullptr;
  void* dx = nullptr;  // overwritten
};
void SplitRowsBackward(const SplitRowsBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_SPLIT_ROWS_H_
