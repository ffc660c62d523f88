#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tensors/add_scaled.h"
#include "kernels/tensors/rows.h"

namespace coxswain::kernels {

// Gather of rows; the backward adds rows in token order, each thread over its own columns, so the
// sum of a row that several tokens share has one order whatever the thread count.

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

bool RowGatherSupports(const RowGatherSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.columns > 0;
}

void GatherRows(const RowGatherArgs& args, Stream* stream) {
  cpu::RequireSupported(RowGatherSupports(args.spec), "RowGather");
  const float* in = static_cast<const float*>(args.in);
  float* out = static_cast<float*>(args.out);
  const int64_t columns = args.spec.columns;
  cpu::ParallelFor(args.rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = out + i * columns;
      if (args.index[i] < 0) {
        std::fill_n(row, columns, 0.0f);
      } else {
        std::memcpy(row, in + args.index[i] * columns,
                    static_cast<size_t>(columns) * sizeof(float));
      }
    }
  });
}

void ScatterAddRows(const RowGatherArgs& args, Stream* stream) {
  cpu::RequireSupported(RowGatherSupports(args.spec), "RowGather");
  const float* in = static_cast<const float*>(args.in);
  float* out = static_cast<float*>(args.out);
  const int64_t columns = args.spec.columns;
  cpu::ParallelFor(args.rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (args.index[i] < 0) continue;
      cpu::AddScaled(1.0f, in + i * columns, out + args.index[i] * columns, columns);
    }
  });
}

bool SplitRowsSupports(const SplitRowsSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.first > 0 && spec.second > 0;
}

void SplitRowsForward(const SplitRowsForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(SplitRowsSupports(args.spec), "SplitRows");
  const int64_t n = args.spec.first, m = args.spec.second;
  cpu::ParallelFor(args.rows, n + m, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = static_cast<const float*>(args.x) + t * (n + m);
      std::copy_n(x, n, static_cast<float*>(args.first) + t * n);
      std::copy_n(x + n, m, static_cast<float*>(args.second) + t * m);
    }
  });
}

void SplitRowsBackward(const SplitRowsBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(SplitRowsSupports(args.spec), "SplitRows");
  const int64_t n = args.spec.first, m = args.spec.second;
  cpu::ParallelFor(args.rows, n + m, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* dx = static_cast<float*>(args.dx) + t * (n + m);
      std::copy_n(static_cast<const float*>(args.dfirst) + t * n, n, dx);
      std::copy_n(static_cast<const float*>(args.dsecond) + t * m, m, dx + n);
    }
  });
}

}  // namespace coxswain::kernels
