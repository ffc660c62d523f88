// The algorithms of attention against the fp64 formulas: a problem, its results and what they may
// be off by.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_ATTENTION_PROBLEM_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_ATTENTION_PROBLEM_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/attention/flash_attention.h"
#include "kernels/cuda/attention/hopper_attention.h"
#include "kernels/cuda/attention/plain_attention.h"
#include "tests/kernels/attention_heads.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/attention.h"

namespace coxswain::kernels::gpu_attention_test {

enum class Algorithm { kPlainFloat32, kPlainBFloat16, kFlash, kCudnn, kPacked, kDense };

inline constexpr Algorithm kOfPacked[] = {Algorithm::kPlainFloat32, Algorithm::kPlainBFloat16,
                                          Algorithm::kFlash, Algorithm::kPacked};

inline const char* Name(Algorithm algorithm) {
  constexpr const char* kNames[] = {"plain float32", "plain bfloat16", "flash",
                                    "cuDNN",         "packed",         "dense"};
  return kNames[static_cast<size_t>(algorithm)];
}

struct Problem {
  Algorithm algorithm;
  AttentionSpec spec;
  std::vector<int32_t> lengths;
  Floats sinks = {};
  float sink_start = 0.0f;  // what their gradients are added to

  int64_t tokens() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  int64_t row() const { return PackedRow(spec); }
  int64_t out_row() const { return spec.num_heads * ValueDim(spec); }
  bool dense() const { return algorithm == Algorithm::kDense || algorithm == Algorithm::kCudnn; }
  bool hopper() const {
    return (algorithm == Algorithm::kPacked || dense()) && cuda::HopperAttentionSupports(spec);
  }
  bool cudnn() const {
    if (algorithm == Algorithm::kCudnn) return true;
    return dense() && cuda::CudnnAttentionSupports(spec) &&
           !cuda::HopperAttentionIsFastest(spec, longest());
  }
  std::vector<int32_t> cu_seqlens() const {
    std::vector<int32_t> cu = {0};
    for (int32_t length : lengths) cu.push_back(cu.back() + length);
    return cu;
  }
  int64_t longest() const {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }
  AttentionExtents extents() const {
    return {.tokens = tokens(),
            .documents = static_cast<int64_t>(lengths.size()),
            .max_length = longest(),
            .dense = dense()};
  }
};

struct HeadShape {
  int64_t heads, kv_heads, dim, value_dim = 0;
};

inline Problem Make(Algorithm algorithm, const HeadShape& shape, std::vector<int32_t> lengths) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.dim));
  return {
      .algorithm = algorithm,
      .spec = {.dtype = algorithm == Algorithm::kPlainFloat32 ? DType::kFloat32 : DType::kBFloat16,
               .num_heads = shape.heads,
               .num_kv_heads = shape.kv_heads,
               .head_dim = shape.dim,
               .value_dim = shape.value_dim,
               .scale = scale},
      .lengths = std::move(lengths)};
}

inline Problem WithSinks(Problem p, Floats sinks) {
  p.spec.sinks = true;
  p.sinks = std::move(sinks);
  return p;
}
// Of 6 heads.
inline Floats MixedSinks() { return {0.0f, -1.5f, 2.0f, -40.0f, 40.0f, 0.25f}; }

// Lengths of a lognormal with mean 250, cut at 1,201.
inline std::vector<int32_t> MixedLengths(int64_t documents) {
  std::mt19937 random(5);
  std::lognormal_distribution<double> length(5.3, 0.7);
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < documents; ++i) {
    lengths.push_back(static_cast<int32_t>(std::min(length(random), 1201.0)));
  }
  return lengths;
}

struct Result {
  Floats out, lse, dqkv, dsinks;
};

inline bool operator==(const Result& a, const Result& b) {
  return SameBits(a.out, b.out) && SameBits(a.lse, b.lse) && SameBits(a.dqkv, b.dqkv) &&
         SameBits(a.dsinks, b.dsinks);
}

inline const cuda::CudnnAttention& CudnnPlan(const Problem& p) {
  std::string line;
  const cuda::CudnnAttention* plan = cuda::PrepareCudnnAttention(
      p.spec, static_cast<int64_t>(p.lengths.size()), p.longest(), 0, TestStream(), &line);
  if (plan == nullptr) throw std::runtime_error(line);
  return *plan;
}

struct WorkspaceBytes {
  int64_t forward, backward;
};
inline WorkspaceBytes WorkspaceBytesOf(const Problem& p) {
  if (p.algorithm == Algorithm::kCudnn) {
    return {cuda::CudnnAttentionForwardWorkspaceBytes(CudnnPlan(p)),
            cuda::CudnnAttentionBackwardWorkspaceBytes(CudnnPlan(p))};
  }
  const std::string line = PrepareAttention(p.spec, p.extents(), TestStream());
  EXPECT_EQ(line.starts_with("cuDNN"), p.cudnn()) << line;
  return {AttentionForwardWorkspaceBytes(p.spec, p.extents()),
          AttentionBackwardWorkspaceBytes(p.spec, p.extents())};
}

inline void Forward(const Problem& p, const AttentionForwardArgs& args) {
  if (p.algorithm == Algorithm::kPlainBFloat16)
    return cuda::PlainAttentionForward(args, TestStream());
  if (p.algorithm == Algorithm::kFlash) return cuda::FlashAttentionForward(args, TestStream());
  if (p.algorithm == Algorithm::kCudnn) {
    return cuda::CudnnAttentionForward(CudnnPlan(p), args, TestStream());
  }
  AttentionForward(args, TestStream());
}
inline void Backward(const Problem& p, const AttentionBackwardArgs& args) {
  if (p.algorithm == Algorithm::kPlainBFloat16) {
    return cuda::PlainAttentionBackward(args, TestStream());
  }
  if (p.algorithm == Algorithm::kFlash) return cuda::FlashAttentionBackward(args, TestStream());
  if (p.algorithm == Algorithm::kCudnn) {
    return cuda::CudnnAttentionBackward(CudnnPlan(p), args, TestStream());
  }
  AttentionBackward(args, TestStream());
}

// Runs `launch` by way of a captured graph, or directly.
inline void Run(bool captured, const std::function<void()>& launch) {
  if (!captured) return launch();
  Graph* graph = CaptureGraph(launch, TestStream());
  LaunchGraph(graph, TestStream());
  Synchronize(TestStream());
  DestroyGraph(graph);
}

// `forward_out`: what the backward reads for out; null: this forward's. `read`: what it reads for
// qkv, which a forward in FP8 rounds.
inline Result Compute(const Problem& p, const Floats& qkv, const Floats& dout,
                      bool captured = false, const Floats* forward_out = nullptr,
                      Floats* read = nullptr) {
  const WorkspaceBytes bytes = WorkspaceBytesOf(p);
  const DType dtype = p.spec.dtype;
  const DeviceValues<int32_t> cu(p.cu_seqlens());
  const Documents documents{.count = static_cast<int64_t>(p.lengths.size()),
                            .cu_seqlens = cu.data(),
                            .max_length = p.longest(),
                            .dense = p.dense()};
  const DeviceTensor x(dtype, qkv), dy(dtype, dout), out(dtype, p.tokens() * p.out_row());
  const DeviceTensor lse(DType::kFloat32, p.tokens() * p.spec.num_heads), dx(dtype, x.count());
  DeviceTensor read_out(dtype, out.count());
  const DeviceTensor sinks(p.spec.sink_dtype, p.sinks);
  const DeviceTensor dsinks(DType::kFloat32, Floats(p.sinks.size(), p.sink_start));
  const void* logits = p.spec.sinks ? sinks.data() : nullptr;
  const Scratch forward(bytes.forward), backward(bytes.backward);
  Run(captured, [&] {
    Forward(p, {.spec = p.spec,
                .tokens = p.tokens(),
                .documents = documents,
                .in = PackedInputs(p.spec, x.data()),
                .sinks = logits,
                .out = out.data(),
                .lse = lse.floats(),
                .rounded = p.spec.fp8 ? PackedOutputs(p.spec, x.data()) : HeadOutputs{},
                .workspace = forward.workspace()});
    if (forward_out != nullptr) read_out.Write(*forward_out);
    Backward(p, {.spec = p.spec,
                 .tokens = p.tokens(),
                 .documents = documents,
                 .in = PackedInputs(p.spec, x.data()),
                 .sinks = logits,
                 .out = forward_out != nullptr ? read_out.data() : out.data(),
                 .lse = lse.floats(),
                 .dout = dy.data(),
                 .gradients = PackedOutputs(p.spec, dx.data()),
                 .sink_gradient = p.spec.sinks ? dsinks.floats() : nullptr,
                 .workspace = backward.workspace()});
  });
  if (read != nullptr) *read = x.Read();
  return {out.Read(), lse.Read(), dx.Read(), dsinks.Read()};
}

inline Floats RandomQkv(const Problem& p) { return Normal(p.tokens() * p.row(), 1, p.spec.dtype); }
inline Floats RandomDout(const Problem& p) {
  return Normal(p.tokens() * p.out_row(), 2, p.spec.dtype);
}

// bfloat16: P (or dS) and the result are each rounded once, which the L2 norm of independent
// roundings of at most kUnit bounds by kUnit each. D is made of O as the kernel gave it, which the
// reference reads too.
// float32: the sums of hd and n terms and twice the score's error in a probability, as derived for
// the CPU kernels in tests/kernels/attention/attention_test.cc.
inline double Float32Bound(const Problem& p) {
  const double dim = static_cast<double>(p.spec.head_dim), n = static_cast<double>(p.longest());
  const double score = (dim + 2) * 5 * dim * p.spec.scale;
  return 4 * (2 * std::sqrt(dim) / dim * score + 8 + n) * kUnit(DType::kFloat32);
}
inline double Bound(const Problem& p, int roundings) {
  if (p.spec.dtype == DType::kBFloat16) return roundings * kUnit(DType::kBFloat16);
  return Float32Bound(p);
}
// Of a sink's gradient, beside its terms: nothing is rounded to bfloat16 but O, which the reference
// reads too. A row's D is off by its vd products, the sum by fewer roundings than there are tokens,
// and an exponent by those of s log2 e and lse log2 e, a few hundred at most, and the
// exponential's.
inline double SinkBound(const Problem& p) {
  const double terms = static_cast<double>(p.tokens() + ValueDim(p.spec)) + 4 * 300 + 8;
  return Float32Bound(p) + terms * kUnit(DType::kFloat32);
}

// Where the algorithm puts lse of row i of the document [start, start + length).
inline int64_t SumIndex(const Problem& p, int64_t start, int64_t length, int64_t i, int64_t h) {
  if (p.cudnn()) return (start / length * p.spec.num_heads + h) * length + i;
  if (!p.hopper()) return h * p.tokens() + start + i;
  const int64_t group = p.spec.num_heads / p.spec.num_kv_heads;
  return (h / group * p.tokens() + start + i) * group + h % group;
}

struct Expected {
  Doubles out, lse, dqkv, dsinks, sink_terms;
};

inline Expected Reference(const Problem& p, const Floats& qkv, const Floats& dout,
                          const Floats& forward_out) {
  const Doubles x = Double(qkv), dy = Double(dout), read_out = Double(forward_out);
  const Doubles logits = Double(p.sinks);
  const double* sinks = p.spec.sinks ? logits.data() : nullptr;
  Expected e{.out = Doubles(dy.size()),
             .lse = Doubles(Size(p.tokens() * p.spec.num_heads)),
             .dqkv = Doubles(x.size()),
             .dsinks = Doubles(logits.size()),
             .sink_terms = {}};
  Doubles by_token(e.lse.size());
  int64_t start = 0;
  for (const int64_t length : p.lengths) {
    if (length == 0) continue;
    const reference::AttentionShape<double> shape{
        length,        p.spec.num_heads, p.spec.num_kv_heads, p.spec.head_dim,
        p.spec.window, p.spec.scale,     p.spec.softcap,      p.spec.value_dim};
    Doubles lse(Size(length * p.spec.num_heads));
    reference::Attention(shape, &x[Size(start * p.row())], &e.out[Size(start * p.out_row())],
                         lse.data(), sinks);
    reference::AttentionBackward(shape, &x[Size(start * p.row())], &dy[Size(start * p.out_row())],
                                 &e.dqkv[Size(start * p.row())],
                                 &read_out[Size(start * p.out_row())], sinks, e.dsinks.data());
    for (int64_t h = 0; h < p.spec.num_heads; ++h) {
      for (int64_t i = 0; i < length; ++i) {
        e.lse[Size(SumIndex(p, start, length, i, h))] = lse[Size(h * length + i)];
        by_token[Size((start + i) * p.spec.num_heads + h)] = lse[Size(h * length + i)];
      }
    }
    start += length;
  }
  e.sink_terms = SinkTerms(p.spec, p.sinks, read_out, dout, [&](int64_t t, int64_t h) {
    return by_token[Size(t * p.spec.num_heads + h)];
  });
  return e;
}

inline void CheckAgainstReference(const Problem& p) {
  SCOPED_TRACE(testing::Message() << Name(p.algorithm) << " " << p.spec.num_heads << "/"
                                  << p.spec.num_kv_heads << " x " << p.spec.head_dim << " and "
                                  << ValueDim(p.spec) << " window " << p.spec.window << " softcap "
                                  << p.spec.softcap << " first sink "
                                  << (p.spec.sinks ? p.sinks[0] : NAN));
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Result got = Compute(p, qkv, dout);
  const Expected want = Reference(p, qkv, dout, got.out);
  ExpectRelativeError(got.out, want.out, Bound(p, 2), "out");
  // Scores and their sum stay in float32 whatever the dtype.
  ExpectRelativeError(got.lse, want.lse, 1e-4, "lse");
  const double bound = Bound(p, 2);
  EXPECT_LE(WorstHead(p.spec, got.dqkv, want.dqkv, bound), 1.0);
  ExpectSinkGradient(got.dsinks, want.dsinks, want.sink_terms, SinkBound(p));
  // 2 kUnit are 0.8 %: a head that is 3 % off, of q, k or v, is found.
  const int64_t last = AllHeads(p.spec) - 1;
  const double size = HeadNorm(p.spec, want.dqkv, last);
  for (const int64_t h : {int64_t{0}, p.spec.num_heads, last}) {
    // Tokens that see few others, or sinks that leave nothing to them.
    if (HeadNorm(p.spec, want.dqkv, h) < std::max(0.1 * size, 1e-20)) continue;
    EXPECT_GT(WorstHead(p.spec, WithOneHeadOff(p.spec, got.dqkv, h), want.dqkv, bound), 1.0) << h;
  }
}

inline const std::vector<int32_t> kOddLengths = {1, 0, 63, 64, 65, 131, 0, 0, 2, 40};

}  // namespace coxswain::kernels::gpu_attention_test

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_ATTENTION_PROBLEM_H_
