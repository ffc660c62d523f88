// Gather of rows; the backward adds rows in token order, each thread over its own columns, so the
// sum of a row that several tokens share has one order whatever the thread count.
#include "kernels/tensors/embedding.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"

namespace coxswain::kernels {
namespace {

void RequireIds(const int32_t* ids, int64_t tokens, int64_t vocab, int32_t least = 0) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (ids[t] < least || ids[t] >= vocab) {
      throw std::invalid_argument("Embedding: token " + std::to_string(t) + " has id " +
                                  std::to_string(ids[t]) + ", the vocabulary has " +
                                  std::to_string(vocab));
    }
  }
}

}  // namespace

bool EmbeddingSupports(const EmbeddingSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.grad_dtype == DType::kFloat32 && spec.vocab > 0 &&
         spec.hidden > 0;
}

void EmbeddingForward(const EmbeddingForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(EmbeddingSupports(args.spec), "Embedding");
  RequireIds(args.ids, args.tokens, args.spec.vocab);
  const float* weight = static_cast<const float*>(args.weight);
  float* out = static_cast<float*>(args.out);
  const int64_t hidden = args.spec.hidden;
  cpu::ParallelFor(args.tokens, hidden, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* row = weight + args.ids[t] * hidden;
      std::transform(row, row + hidden, out + t * hidden,
                     [scale = args.spec.scale](float value) { return scale * value; });
    }
  });
}

int64_t EmbeddingBackwardWorkspaceBytes(const EmbeddingSpec& spec, int64_t tokens) { return 0; }

void EmbeddingBackward(const EmbeddingBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(EmbeddingSupports(args.spec), "Embedding");
  RequireIds(args.ids, args.tokens, args.spec.vocab, -1);
  const float* dout = static_cast<const float*>(args.dout);
  float* dweight = static_cast<float*>(args.dweight);
  const int64_t hidden = args.spec.hidden;
  const int64_t range_end = args.end < 0 ? args.spec.vocab * hidden : args.end;
  cpu::ParallelFor(hidden, args.tokens, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < args.tokens; ++t) {
      if (args.ids[t] < 0) continue;
      const int64_t row = args.ids[t] * hidden;
      const int64_t first = std::max(row + begin, args.begin);
      const int64_t last = std::min(row + end, range_end);
      if (first >= last) continue;
      cpu::AddScaled(args.spec.scale, dout + t * hidden + (first - row), dweight + first,
                     last - first);
    }
  });
}

}  // namespace coxswain::kernels
