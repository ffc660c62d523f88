// Rows: by token, by index, split at a column.
#ifndef COXSWAIN_KERNELS_TENSORS_ROWS_H_
#define COXSWAIN_KERNELS_TENSORS_ROWS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/tensors/gradient_sum.h"

namespace coxswain::kernels {

// Token embedding: rows of a table by id, scaled, and the gradient of the table.
struct EmbeddingSpec {
  DType dtype = DType::kFloat32;       // weight, out, dout
  DType grad_dtype = DType::kFloat32;  // dweight
  int64_t vocab = 0;                   // V
  int64_t hidden = 0;                  // H
  float scale = 1.0f;
};
bool EmbeddingSupports(const EmbeddingSpec& spec);

// out[t] = scale weight[ids[t]].
struct EmbeddingForwardArgs {
  EmbeddingSpec spec = {};
  int64_t tokens = 0;            // T
  const int32_t* ids = nullptr;  // [T], in [0, V)
  const void* weight = nullptr;  // [V, H]
  void* out = nullptr;           // [T, H]
};
void EmbeddingForward(const EmbeddingForwardArgs& args, Stream* stream);

int64_t EmbeddingBackwardWorkspaceBytes(const EmbeddingSpec& spec, int64_t tokens);

// dweight[ids[t]] += scale dout[t], added in token order: same bits every time. An id of -1 is no
// token: its row of dout is not read.
struct EmbeddingBackwardArgs {
  EmbeddingSpec spec = {};
  int64_t tokens = 0;
  const int32_t* ids = nullptr;  // [T], in [-1, V)
  const void* dout = nullptr;    // [T, H]
  void* dweight = nullptr;       // [V, H], accumulated
  int64_t begin = 0, end = -1;   // elements of dweight that are added to; end -1: V H
  GradientSum sum = {};          // of dweight in bfloat16: a term is the sum of a row's tokens
  Workspace workspace = {};
};
void EmbeddingBackward(const EmbeddingBackwardArgs& args, Stream* stream);

// Rows by index: the LM head runs on the rows that have a target only.
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

// Columns of rows, copied apart and together again.
//   first[t] = x[t, :n];  second[t] = x[t, n:];  backward: dx[t] = [dfirst[t], dsecond[t]]
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

#endif  // COXSWAIN_KERNELS_TENSORS_ROWS_H_
