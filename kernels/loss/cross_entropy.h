// What is made of a row of logits: its loss and gradient, whether the target is the first maximum,
// the first maximum.
#ifndef COXSWAIN_KERNELS_LOSS_CROSS_ENTROPY_H_
#define COXSWAIN_KERNELS_LOSS_CROSS_ENTROPY_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// Cross-entropy of a chunk of logits, and its gradient, which may replace them. With p =
// softmax(z), lse = log sum exp z, smoothing e, z-loss weight c and target y:
//   nll = lse - z_y;  loss = (1 - e) nll + e mean_v(lse - z_v) + c lse^2
//   dz = s (p - (1 - e) 1_y - e/V + 2 c lse p), s the gradient scale, times the row's weight where
//   rows have weights; p_y - 1 is formed in float32.
// With softcap k: z = k tanh(logit/k), and the gradient of the logit is dz (1 - (z/k)^2).
// An ignored row has loss 0, nll 0 and gradient 0, whatever its logits.
// What lies between the rows is no logit: it is not looked at, and the gradient has 0 there. CUDA
// reads a row once, by 16 bytes, where rows start at multiples of them. Source:
// torch.nn.functional.cross_entropy (label_smoothing); PaLM, 2022, section 5 (z-loss).

inline constexpr int32_t kIgnoreTarget = -100;

struct CrossEntropySpec {
  DType dtype = DType::kFloat32;  // logits
  int64_t vocab = 0;              // V
  float label_smoothing = 0.0f;   // e, in [0, 1)
  float z_loss = 0.0f;            // c, >= 0
  float softcap = 0.0f;           // k > 0: z = k tanh(logit / k); 0: none
};
bool CrossEntropySupports(const CrossEntropySpec& spec);

struct CrossEntropyArgs {
  CrossEntropySpec spec = {};
  int64_t rows = 0;                       // N; N V may exceed 2^31
  void* logits = nullptr;                 // [N, V]
  void* gradient = nullptr;               // [N, V], dz; null: overwrites the logits
  int64_t ld = 0;                         // elements between rows of both, at least V; 0: V
  const int32_t* targets = nullptr;       // [N], in [0, V) or kIgnoreTarget; the CPU throws for any
                                          // other, CUDA, which cannot see them, gives loss NaN
  const float* gradient_scale = nullptr;  // one float in device memory: 1 / targets of the global
                                          // batch; null: losses only
  const float* row_weights = nullptr;     // [N], multiply the gradient scale; null: all 1
  float* loss = nullptr;                  // [N], the objective, unscaled
  float* nll = nullptr;                   // [N], without smoothing and z-loss; null: not wanted
};
void CrossEntropy(const CrossEntropyArgs& args, Stream* stream);

// Which rows of logits have their target as first maximum: token accuracy. Source: torch.argmax,
// where the first of equals counts; a softcap does not change the order.
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

// The column of each row's first maximum: the greedy choice among logits. Source: torch.argmax,
// where the first of equals counts; a softcap does not change the order.
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

#endif  // COXSWAIN_KERNELS_LOSS_CROSS_ENTROPY_H_
