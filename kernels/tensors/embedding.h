// Token embedding: rows of a table by id, scaled, and the gradient of the table.
#ifndef COXSWAIN_KERNELS_TENSORS_EMBEDDING_H_
#define COXSWAIN_KERNELS_TENSORS_EMBEDDING_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/tensors/gradient_sum.h"

namespace coxswain::kernels {

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

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_EMBEDDING_H_
