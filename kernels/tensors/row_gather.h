// Rows by index: the LM head runs on the rows that have a target only.
#ifndef COXSWAIN_KERNELS_TENSORS_ROW_GATHER_H_
#define COXSWAIN_KERNELS_TENSORS_ROW_GATHER_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct RowGatherSpec {
  DType dtype = DType::kFloat32;
  int64_t columns = 0;  // H
};
bool RowGatherSupports(const RowGatherSpec& spec);

struct RowGatherArgs {
  RowGatherSpec spec = {};
  int64_t rows = 0;                // N
  const int32_t* index = nullptr;  // [N], rows of the tall matrix, all different; -1: no row
  const void* in = nullptr;
  void* out = nullptr;  // overlaps not with in
};
// out[i] = in[index[i]]: in is the tall matrix, out [N, H]. No row reads as zeros.
void GatherRows(const RowGatherArgs& args, Stream* stream);
// out[index[i]] += in[i]: in is [N, H], out the tall matrix. No row is left out.
void ScatterAddRows(const RowGatherArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_ROW_GATHER_H_
