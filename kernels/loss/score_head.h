// The head of reward models and classifiers: scores of documents from one row each.
//   s[i, l] = sum_h x[row_i, h] w[l, h]
// and of its gradient d = c ds: dx[row_i, h] = sum_l d[i, l] w[l, h], dw[l, h] = sum_i d[i, l]
// x[row_i, h]. Sums are in double, in the order of their index, and rounded once.
// Source: transformers modeling_layers.py, GenericForSequenceClassification: a linear without bias
// whose output is taken at the last token of a text.
#ifndef COXSWAIN_KERNELS_LOSS_SCORE_HEAD_H_
#define COXSWAIN_KERNELS_LOSS_SCORE_HEAD_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct ScoreHeadSpec {
  DType dtype = DType::kFloat32;  // of x, w and dx
  int64_t width = 0;              // H
  int64_t labels = 0;             // L, 1 .. 65535
};
bool ScoreHeadSupports(const ScoreHeadSpec& spec);

struct ScoreHeadForwardArgs {
  ScoreHeadSpec spec = {};
  int64_t documents = 0;          // S
  const int32_t* rows = nullptr;  // [S], rows of x, all different; -1: no document, whose s are 0
  const void* x = nullptr;        // [tokens, H]
  const void* weight = nullptr;   // [L, H]
  float* scores = nullptr;        // [S, L]
};
void ScoreHeadForward(const ScoreHeadForwardArgs& args, Stream* stream);

struct ScoreHeadBackwardArgs {
  ScoreHeadSpec spec = {};
  int64_t documents = 0;
  const int32_t* rows = nullptr;
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* dscores = nullptr;  // [S, L]
  const float* scale = nullptr;    // c, in device memory
  void* dx = nullptr;              // the rows of documents are written, the others left
  float* dweight = nullptr;        // [L, H]; null: the head is frozen
  bool accumulate = false;         // dweight is added to
};
void ScoreHeadBackward(const ScoreHeadBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_SCORE_HEAD_H_
