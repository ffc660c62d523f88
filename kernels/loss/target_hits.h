// Which rows of logits have their target as first maximum: token accuracy. Source: torch.argmax,
// where the first of equals counts; a softcap does not change the order.
#ifndef COXSWAIN_KERNELS_LOSS_TARGET_HITS_H_
#define COXSWAIN_KERNELS_LOSS_TARGET_HITS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct TargetHitsSpec {
  DType dtype = DType::kFloat32;  // logits
  int64_t vocab = 0;              // V
};
bool TargetHitsSupports(const TargetHitsSpec& spec);

struct TargetHitsArgs {
  TargetHitsSpec spec = {};
  int64_t rows = 0;                  // N; N V may exceed 2^31
  const void* logits = nullptr;      // [N, V]
  int64_t ld = 0;                    // elements between rows, at least V; 0: V
  const int32_t* targets = nullptr;  // [N]; outside [0, V), kIgnoreTarget too: no hit
  float* hits = nullptr;             // [N], 1 or 0; NaN in a row: 0
};
void TargetHits(const TargetHitsArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_TARGET_HITS_H_
