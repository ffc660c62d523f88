// Tables on the host and the rotation in place, 8 bytes per rotated element.
#include "kernels/rope.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

// Source: transformers modeling_rope_utils, _compute_llama3_parameters; float32 like there.
float Llama3Scaled(float frequency, const RopeFrequencies& f) {
  const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / frequency;
  const double length = static_cast<double>(f.original_max_position);
  if (wavelength < static_cast<float>(length / f.high_freq_factor)) return frequency;
  const float scaled = frequency / static_cast<float>(f.factor);
  if (wavelength > static_cast<float>(length / f.low_freq_factor)) return scaled;
  const float smooth =
      (static_cast<float>(length) / wavelength - static_cast<float>(f.low_freq_factor)) /
      static_cast<float>(f.high_freq_factor - f.low_freq_factor);
  return (1.0f - smooth) * frequency / static_cast<float>(f.factor) + smooth * frequency;
}

// sign 1 turns forward, -1 back.
COXSWAIN_VECTORIZE void RotateTokens(const RopeArgs& args, float sign, int64_t begin, int64_t end) {
  const int64_t dim = args.spec.head_dim, half = dim / 2;
  const int64_t rotated = args.spec.num_heads + args.spec.num_kv_heads;
  const int64_t row = (rotated + args.spec.num_kv_heads) * dim;
  for (int64_t t = begin; t < end; ++t) {
    const float* cos = args.cos + args.positions[t] * half;
    const float* sin = args.sin + args.positions[t] * half;
    float* x = static_cast<float*>(args.qkv) + t * row;
    for (int64_t h = 0; h < rotated; ++h, x += dim) {
      for (int64_t j = 0; j < half; ++j) {
        const float a = x[j], b = x[j + half], c = cos[j], s = sign * sin[j];
        x[j] = a * c - b * s;
        x[j + half] = b * c + a * s;
      }
    }
  }
}

void Rotate(const RopeArgs& args, float sign) {
  cpu::RequireSupported(RopeSupports(args.spec), "Rope");
  const int64_t elements = (args.spec.num_heads + args.spec.num_kv_heads) * args.spec.head_dim;
  cpu::ParallelFor(args.tokens, elements,
                   [&](int64_t begin, int64_t end) { RotateTokens(args, sign, begin, end); });
}

}  // namespace

std::vector<float> RopeInverseFrequencies(const RopeFrequencies& frequencies) {
  const int64_t dim = frequencies.head_dim;
  if (dim <= 0 || dim % 2 != 0) {
    throw std::invalid_argument("Rope: head_dim " + std::to_string(dim) +
                                " must be even and positive");
  }
  std::vector<float> inverse(static_cast<size_t>(dim / 2));
  for (int64_t i = 0; i < dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    const float power = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(frequencies.theta)), exponent));
    const float frequency = 1.0f / power;
    inverse[static_cast<size_t>(i)] =
        frequencies.llama3 ? Llama3Scaled(frequency, frequencies) : frequency;
  }
  return inverse;
}

RopeTable BuildRopeTable(const RopeFrequencies& frequencies, int64_t positions) {
  const std::vector<float> inverse = RopeInverseFrequencies(frequencies);
  RopeTable table{.positions = positions, .cos = {}, .sin = {}};
  table.cos.reserve(static_cast<size_t>(positions) * inverse.size());
  table.sin.reserve(static_cast<size_t>(positions) * inverse.size());
  for (int64_t p = 0; p < positions; ++p) {
    for (const float frequency : inverse) {
      const double angle = static_cast<float>(p) * frequency;  // rounded to float32 first
      table.cos.push_back(static_cast<float>(std::cos(angle)));
      table.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

bool RopeSupports(const RopeSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.num_heads > 0 && spec.num_kv_heads > 0 &&
         spec.head_dim > 0 && spec.head_dim % 2 == 0 && !spec.interleaved;
}

void RopeForward(const RopeArgs& args, Stream* stream) { Rotate(args, 1.0f); }
void RopeBackward(const RopeArgs& args, Stream* stream) { Rotate(args, -1.0f); }

}  // namespace coxswain::kernels
