// Queries, keys and values of a row by one product, with the rotation of q and k behind it.
//   qkv = x W^T + bias, rounded to the type; then q and k turned as in rope.h
// W [(nq + 2 nkv) hd, K] has the rows of q heads, k heads, v heads. The bits are those of the
// rotation on what the product puts out, whatever runs. Source: kernels/rope.h.
#ifndef COXSWAIN_KERNELS_PRODUCTS_ROTATED_LINEAR_H_
#define COXSWAIN_KERNELS_PRODUCTS_ROTATED_LINEAR_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/rope.h"

namespace coxswain::kernels {

struct RotatedLinearSpec {
  RopeSpec rope = {};
  int64_t in_features = 0;  // K
};
bool RotatedLinearSupports(const RotatedLinearSpec& spec);

// CUDA: one launch or a product and a pass, by the table of gemm.h: while tuning is on, the first
// launch of each spec and number of rows times both on its own operands (qkv may be left with any
// value).
struct RotatedLinearArgs {
  int64_t in_features = 0;       // K
  const void* x = nullptr;       // [T, K]
  const void* weight = nullptr;  // W
  const void* bias = nullptr;    // [(nq + 2 nkv) hd]; null: none
  RopeArgs rope = {};            // T tokens; qkv is overwritten
  Workspace workspace = {};      // GEMM scratch of the plan
};
void RotatedLinearForward(const RotatedLinearArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_ROTATED_LINEAR_H_
