// One pass over p, g, m, v: 28 bytes per element, 20 with states in bfloat16. Every element is
// independent of every other.
#include "kernels/optimizer/adamw.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/optimizer/adamw_element.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/philox.h"

namespace coxswain::kernels {
namespace {

using cpu::AdamWCoefficients;

constexpr int64_t kDrawn = 4;    // elements that one Philox block rounds the states of
constexpr int64_t kGroups = 64;  // of so many elements, drawn for together

COXSWAIN_VECTORIZE void UpdateFloats(const AdamWCoefficients& c, float* p, const float* g, float* m,
                                     float* v, int64_t n) {
  cpu::UpdateElements(c, p, g, m, v, n);
}

COXSWAIN_INLINE float FromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

COXSWAIN_INLINE uint16_t RoundStochastically(float x, uint32_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((std::isnan(x) ? bits | 0x400000u : bits + random) >> 16);
}

// Words of the draws of elements [4 group, 4 (group + kGroups)).
COXSWAIN_INLINE void DrawStates(const UpdateDraws& draws, uint32_t index, int64_t group,
                                uint32_t* out) {
  for (int64_t k = 0; k < kGroups; ++k) {
    const int64_t number = group + k;
    const PhiloxWords words = Philox(
        {{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), index, *draws.step}},
        draws.state_key[0], draws.state_key[1]);
    for (int64_t j = 0; j < kDrawn; ++j) out[kDrawn * k + j] = words.word[j];
  }
}

// Elements [begin, end) of the tensor.
COXSWAIN_VECTORIZE void UpdateBfloat16(const AdamWCoefficients& c, const UpdateDraws& draws,
                                       const AdamWTensor& t, int64_t begin, int64_t end) {
  float* p = static_cast<float*>(t.p);
  const float* g = static_cast<const float*>(t.g);
  uint16_t* m = static_cast<uint16_t*>(t.m);
  uint16_t* v = static_cast<uint16_t*>(t.v);
  uint32_t words[kDrawn * kGroups];
  for (int64_t i = begin; i < end;) {
    const int64_t group = (t.begin + i) / kDrawn;
    DrawStates(draws, t.index, group, words);
    const int64_t first = kDrawn * group - t.begin;  // element of the tensor that words begin at
    const int64_t stop = std::min(end, first + kDrawn * kGroups);
    for (; i < stop; ++i) {
      const uint32_t random = words[i - first];
      float first_moment = FromBfloat16(m[i]), second_moment = FromBfloat16(v[i]);
      cpu::UpdateElement(c, g[i], p + i, &first_moment, &second_moment);
      m[i] = RoundStochastically(first_moment, random & 0xffffu);
      v[i] = RoundStochastically(second_moment, random >> 16);
    }
  }
}

}  // namespace

bool AdamWSupports(DType p_dtype, DType g_dtype, bool master) {
  return p_dtype == DType::kFloat32 && g_dtype == DType::kFloat32 && !master;
}

void AdamW(const AdamWArgs& args, Stream* stream) {
  if (args.scalars->skip != 0) return;
  for (int64_t i = 0; i < args.count; ++i) {
    const AdamWTensor& tensor = args.tensors[i];
    cpu::RequireSupported(AdamWSupports(tensor.p_dtype, tensor.g_dtype, tensor.master != nullptr),
                          "AdamW");
    const AdamWCoefficients coefficients = cpu::MakeCoefficients(*args.scalars, tensor);
    if (args.state_dtype == DType::kBFloat16) {
      cpu::ParallelFor(tensor.n, 16, [&](int64_t begin, int64_t end) {
        UpdateBfloat16(coefficients, args.draws, tensor, begin, end);
      });
      continue;
    }
    float* p = static_cast<float*>(tensor.p);
    const float* g = static_cast<const float*>(tensor.g);
    float* m = static_cast<float*>(tensor.m);
    float* v = static_cast<float*>(tensor.v);
    cpu::ParallelFor(tensor.n, 4, [&](int64_t begin, int64_t end) {
      UpdateFloats(coefficients, p + begin, g + begin, m + begin, v + begin, end - begin);
    });
  }
  if (args.last) ++args.scalars->applied_updates;
}

}  // namespace coxswain::kernels
