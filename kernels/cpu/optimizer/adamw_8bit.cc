// A block of 256 elements at a time: its states are read into registers' reach, updated, measured
// and stored. 16 bytes per element: p and g in float32, two codes, and 1/16 for absmax. Blocks are
// independent of each other.
#include "kernels/optimizer/adamw_8bit.h"

#include <algorithm>
#include <bit>

#include "kernels/cpu/check.h"
#include "kernels/cpu/optimizer/adamw_element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/optimizer/dynamic_map.h"

namespace coxswain::kernels {
namespace {

using cpu::AdamWCoefficients;

constexpr float kLeastDivisor = 1e-38f;

COXSWAIN_INLINE void Decode(const DynamicMap& map, const uint8_t* codes, float absmax, float* out,
                            int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = map.values[codes[i]] * absmax;
}

// Bits of sizes are ordered as sizes are, those of NaN above all: what a block with one then
// decodes to is NaN too.
COXSWAIN_INLINE float MaxSize(const float* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  return std::bit_cast<float>(largest);
}

// A NaN divides to NaN, as the compare is written.
COXSWAIN_INLINE float Inverse(float absmax) {
  return 1.0f / (absmax < kLeastDivisor ? kLeastDivisor : absmax);
}

COXSWAIN_VECTORIZE void UpdateBlock(const AdamWCoefficients& c, const AdamW8bitTensor& t,
                                    int64_t block) {
  float m[kStateBlock], v[kStateBlock];
  const int64_t first = block * kStateBlock, n = std::min(kStateBlock, t.tensor.n - first);
  uint8_t* const m_codes = t.m_codes + first;
  uint8_t* const v_codes = t.v_codes + first;
  Decode(kSignedDynamicMap, m_codes, t.m_absmax[block], m, n);
  Decode(kUnsignedDynamicMap, v_codes, t.v_absmax[block], v, n);
  cpu::UpdateElements(c, static_cast<float*>(t.tensor.p) + first,
                      static_cast<const float*>(t.tensor.g) + first, m, v, n);
  t.m_absmax[block] = MaxSize(m, n);
  t.v_absmax[block] = MaxSize(v, n);
  const float m_scale = Inverse(t.m_absmax[block]), v_scale = Inverse(t.v_absmax[block]);
  for (int64_t i = 0; i < n; ++i) m_codes[i] = SignedDynamicCode(m[i] * m_scale);
  for (int64_t i = 0; i < n; ++i) v_codes[i] = UnsignedDynamicCode(v[i] * v_scale);
}

}  // namespace

void AdamW8bit(const AdamW8bitArgs& args, Stream* stream) {
  if (args.scalars->skip != 0) return;
  for (int64_t i = 0; i < args.count; ++i) {
    const AdamW8bitTensor& t = args.tensors[i];
    if (t.m_codes == nullptr) {
      AdamW({.tensors = &t.tensor,
             .count = 1,
             .chunks = TensorChunks(t.tensor.n),
             .scalars = args.scalars,
             .draws = args.draws,
             .last = false},
            stream);
      continue;
    }
    cpu::RequireSupported(
        AdamWSupports(t.tensor.p_dtype, t.tensor.g_dtype, t.tensor.master != nullptr), "AdamW8bit");
    const AdamWCoefficients coefficients = cpu::MakeCoefficients(*args.scalars, t.tensor);
    cpu::ParallelFor(StateBlocks(t.tensor.n), 8 * kStateBlock, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) UpdateBlock(coefficients, t, block);
    });
  }
  if (args.last) ++args.scalars->applied_updates;
}

}  // namespace coxswain::kernels
