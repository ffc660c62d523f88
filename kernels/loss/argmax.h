// The column of each row's first maximum: the greedy choice among logits. Source: torch.argmax,
// where the first of equals counts; a softcap does not change the order.
#ifndef COXSWAIN_KERNELS_LOSS_ARGMAX_H_
#define COXSWAIN_KERNELS_LOSS_ARGMAX_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct ArgmaxSpec {
  DType dtype = DType::kFloat32;  // values
  int64_t columns = 0;            // V, below 2^31
};
bool ArgmaxSupports(const ArgmaxSpec& spec);

struct ArgmaxArgs {
  ArgmaxSpec spec = {};
  int64_t rows = 0;              // N
  const void* values = nullptr;  // [N, V]
  int64_t ld = 0;                // elements between rows, at least V; 0: V
  int32_t* columns = nullptr;    // [N], in [0, V); -1 where the row holds a NaN
};
void Argmax(const ArgmaxArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_ARGMAX_H_
