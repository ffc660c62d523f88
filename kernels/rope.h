// Rotary position embedding of the first r elements x of each head; the others stay.
// Half-split layout: (a, b) = (x[:r/2], x[r/2:]); interleaved: (a, b) = (x[0::2], x[1::2]);
//   a' = a cos - b sin;  b' = b cos + a sin;  the backward turns by the opposite angle.
// Then all of a q head may be multiplied by a scale of its position, in the backward too.
// Source: Su et al., "RoFormer", 2021; transformers rotate_half, partial_rotary_factor and
// modeling_rope_utils.
#ifndef COXSWAIN_KERNELS_ROPE_H_
#define COXSWAIN_KERNELS_ROPE_H_

#include <cstdint>
#include <vector>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// How frequencies differ from theta^(-2i/r): not at all; all divided by `factor`; the low
// ones divided and those between blended, by wavelength (kBands, of Llama 3) or by rotations within
// the original length (kYarn); each divided by a number of its own (kLongRope).
enum class RopeScaling { kNone, kLinear, kBands, kYarn, kLongRope };

struct RopeFrequencies {
  int64_t rotated = 0;  // r, even
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // kBands
  double high_freq_factor = 4.0;  // kBands
  int64_t original_max_position = 8192;
  double beta_fast = 32.0;           // kYarn: rotations above which a frequency stays
  double beta_slow = 1.0;            // kYarn: rotations below which it is divided
  bool truncate = true;              // kYarn: both bounds rounded to whole dimensions
  double attention_factor = 1.0;     // kYarn, kLongRope: of cosines and sines
  std::vector<double> factors = {};  // kLongRope: [r/2]
};

// Host. Inverse frequencies [r/2]. Throws std::invalid_argument for an odd r and for another number
// of factors.
std::vector<float> RopeInverseFrequencies(const RopeFrequencies& frequencies);

struct RopeTable {
  int64_t positions = 0;
  std::vector<float> cos;  // [positions, r/2]
  std::vector<float> sin;  // [positions, r/2]
};
// Host. The angle is the float32 product position x inverse frequency, as in transformers.
RopeTable BuildRopeTable(const RopeFrequencies& frequencies, int64_t positions);

// Host. Scales [positions] of queries, above 1 behind the length that a model was trained for:
//   1 + beta log(1 + floor(p / original_max_position))
// Throws std::invalid_argument for a length below 1. Source: transformers modeling_ministral3,
// get_llama_4_attn_scale (llama_4_scaling_beta).
std::vector<float> BuildQueryScale(double beta, int64_t original_max_position, int64_t positions);

struct RopeSpec {
  DType dtype = DType::kFloat32;  // qkv
  int64_t num_heads = 0;          // nq
  int64_t num_kv_heads = 0;       // nkv
  int64_t head_dim = 0;           // hd
  int64_t rotated = 0;            // r, even, at most hd; 0: all of hd
  bool interleaved = false;
};
bool RopeSupports(const RopeSpec& spec);
// r of a spec: what its tables were built for.
constexpr int64_t RotatedElements(const RopeSpec& spec) {
  return spec.rotated == 0 ? spec.head_dim : spec.rotated;
}

// In place on the q and k heads of packed rows; v is not touched.
struct RopeArgs {
  RopeSpec spec = {};
  int64_t tokens = 0;                  // T
  void* qkv = nullptr;                 // [T, (nq + 2 nkv) hd]: q heads, k heads, v heads
  const float* cos = nullptr;          // [positions, r/2]
  const float* sin = nullptr;          // [positions, r/2]
  const int32_t* positions = nullptr;  // [T], within the document; below the table's positions
  const float* query_scale = nullptr;  // [positions], of q heads; null: none
};
void RopeForward(const RopeArgs& args, Stream* stream);
// The same on the gradient of qkv.
void RopeBackward(const RopeArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ROPE_H_
