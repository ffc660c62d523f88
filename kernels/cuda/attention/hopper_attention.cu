// The launches of attention by warpgroup products, and what its backward reads of each row: the
// base 2 logarithm of its sum and D = rowsum(dO O).
//
// Workspace of the backward: two floats a packed row (hopper_tiles.cuh), then the counters of its
// two kernels. The gradient of sinks is made of the same numbers (sink_gradient.cu). Bytes of the
// row sums: 4 per element of out, 12 per row. Deterministic: a row's sum has a fixed order.
#include "kernels/cuda/attention/hopper_attention.h"

#include "kernels/attention/attention_contract.h"
#include "kernels/cuda/attention/fp8_attention.cuh"
#include "kernels/cuda/attention/hopper_tiles.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kMostGroupHeads = 64;
static_assert(kMostGroupHeads == kFp8QueryHeads);
constexpr int64_t kFlashHeadDim = 32;  // heads of at most that are half zeros here
constexpr int64_t kCounterBytes = 16;
constexpr int64_t kCodesBegin = 256;  // of a forward's workspace, behind the counter
constexpr int kSumThreads = 256;

// kLanes lanes a row, 8 elements each, of which the last ones may have none.
template <int kLanes>
__global__ void __launch_bounds__(kSumThreads)
    HopperRowSumsKernel(HopperParams p, float2* statistics) {
  const int64_t row = (int64_t{blockIdx.x} * kSumThreads + static_cast<int>(threadIdx.x)) / kLanes;
  if (row >= int64_t{p.tokens} * p.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t at = row * p.value_dim + lane * 8;
  uint4 out = {}, dout = {};
  if (lane * 8 < p.value_dim) {
    out = *reinterpret_cast<const uint4*>(p.out + at);
    dout = *reinterpret_cast<const uint4*>(p.dout + at);
  }
  const uint32_t a[4] = {out.x, out.y, out.z, out.w}, b[4] = {dout.x, dout.y, dout.z, dout.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum += __uint_as_float(a[i] << 16) * __uint_as_float(b[i] << 16) +
           __uint_as_float(a[i] & 0xffff0000u) * __uint_as_float(b[i] & 0xffff0000u);
  }
  const unsigned lanes = (~0u >> (kWarp - kLanes)) << (threadIdx.x % kWarp / kLanes * kLanes);
#pragma unroll
  for (int i = kLanes / 2; i > 0; i /= 2) sum += __shfl_xor_sync(lanes, sum, i);
  if (lane != 0) return;
  const int token = static_cast<int>(row / p.heads);
  const int head = static_cast<int>(row - int64_t{token} * p.heads);
  const int kv_head = head / p.group_heads;
  const int64_t packed =
      (int64_t{kv_head} * p.tokens + token) * p.group_heads + (head - kv_head * p.group_heads);
  statistics[packed] = {p.lse[packed] * kLog2E, sum};
}

void LaunchRowSums(const HopperParams& p, float2* statistics, Stream* stream) {
  ForHopperWidths(p.value_dim, p.value_dim, [&](auto widths) {
    constexpr int kLanes = decltype(widths)::kValueDim / 8;
    const int64_t threads = int64_t{p.tokens} * p.heads * kLanes;
    const auto blocks = static_cast<unsigned>(CeilDiv(threads, int64_t{kSumThreads}));
    HopperRowSumsKernel<kLanes><<<blocks, kSumThreads, 0, Handle(stream)>>>(p, statistics);
  });
}

// Whether dq and dk are turned back where they are stored: all of a head in halves, of a width that
// the kernels are compiled for.
bool TurnsBack(const AttentionSpec& spec, const RopeArgs& rotation) {
  const int dim = static_cast<int>(spec.head_dim);
  bool compiled = false;
  ForHopperWidths(dim, dim, [&](auto widths) { compiled = dim == decltype(widths)::kDim; });
  return compiled && !rotation.spec.interleaved && rotation.query_scale == nullptr &&
         RotatedElements(rotation.spec) == spec.head_dim;
}

int64_t StatisticsBytes(const AttentionSpec& spec, int64_t tokens) {
  return AlignUp(static_cast<int64_t>(sizeof(float2)) * spec.num_heads * tokens);
}

Fp8AttentionParts CodeParts(const AttentionSpec& spec, int64_t tokens, int64_t documents) {
  return Fp8AttentionPartsOf(spec.num_kv_heads, spec.head_dim, ValueDim(spec), tokens, documents);
}
AttentionCodes CodesIn(char* data, const Fp8AttentionParts& parts) {
  const auto codes = [&](int64_t at) { return reinterpret_cast<uint8_t*>(data + at); };
  const auto scales = [&](int64_t at) { return reinterpret_cast<float*>(data + at); };
  return {.k = codes(parts.k),
          .v = codes(parts.v),
          .k_scales = scales(parts.k_scales),
          .v_scales = scales(parts.v_scales),
          .value_keys = static_cast<int>(parts.value_keys),
          .tiles = static_cast<int>(parts.tiles)};
}

// What the kernels take of heads whose wider side has `widest` elements.
bool TakesHeads(const AttentionSpec& spec, int64_t widest) {
  const int64_t values = ValueDim(spec);
  if (spec.fp8) return HasFp8Attention(spec);
  return spec.head_dim % 8 == 0 && values % 8 == 0 && widest > kFlashHeadDim && widest <= 256;
}

}  // namespace

bool HopperAttentionSupports(const AttentionSpec& spec) {
  return spec.dtype == DType::kBFloat16 &&
         TakesHeads(spec, std::max(spec.head_dim, ValueDim(spec))) &&
         spec.num_heads <= kMostGroupHeads * spec.num_kv_heads && QueryRow(spec) % 8 == 0 &&
         KeyRow(spec) % 8 == 0 && ValueRow(spec) % 8 == 0 && spec.scale > 0.0f &&
         Capability() == 90;
}

// Source: gpu_bench on one H100, bench/results/h100_attention.json, 28/4 and 32/8 heads x 128, ms
// of forward and backward: ours 3.97 and 4.28 at 2,048 tokens, cuDNN's with atomics 4.04 and 4.77;
// at 8,192 tokens 15.0 and 16.3 beside 12.9 and 14.7. 32/32 heads x 96 at 2,048 tokens: ours 2.19,
// cuDNN's 2.21, deterministic 2.33 (papers_attention.json). cuDNN has no backward of 256.
bool HopperAttentionIsFastest(const AttentionSpec& spec, int64_t length) {
  return HopperAttentionSupports(spec) && (spec.fp8 || spec.deterministic || spec.head_dim <= 64 ||
                                           spec.head_dim > 128 || length < 4096);
}

int64_t HopperAttentionForwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens,
                                             int64_t documents) {
  return spec.fp8 ? kCodesBegin + CodeParts(spec, tokens, documents).bytes : kCounterBytes;
}

int64_t HopperAttentionBackwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens) {
  return StatisticsBytes(spec, tokens) + kCounterBytes;
}

void HopperAttentionForward(const AttentionForwardArgs& args, Stream* stream) {
  RequireFlashAligned(args.in);
  RequireFlashAligned(args.out, "out");
  auto* next = static_cast<int*>(args.workspace.data);
  CheckCuda(cudaMemsetAsync(next, 0, kCounterBytes, Handle(stream)), "cudaMemsetAsync");
  HopperParams p = MakeHopperParams(args.spec, args.documents, args.tokens, args.in);
  p.sinks = MakeSinks(args.spec, args.sinks);
  if (args.spec.fp8) {
    const Fp8AttentionParts parts = CodeParts(args.spec, args.tokens, args.documents.count);
    RequireFlashAligned(args.rounded);
    AttentionCodes codes = CodesIn(static_cast<char*>(args.workspace.data) + kCodesBegin, parts);
    codes.rounded_q = static_cast<bf16*>(args.rounded.q);
    codes.rounded_k = static_cast<bf16*>(args.rounded.k);
    codes.rounded_v = static_cast<bf16*>(args.rounded.v);
    LaunchAttentionCodes(p, codes, stream);
    LaunchHopperFp8Forward(args, p, codes, next, stream);
  } else {
    LaunchHopperForward(args, p, next, stream);
  }
  CheckLaunch("AttentionForward");
}

void HopperAttentionBackward(const AttentionBackwardArgs& args, Stream* stream) {
  RequireFlashAligned(args.in);
  RequireFlashAligned(args.out, "out");
  RequireFlashAligned(args.dout, "dout");
  RequireFlashAligned(args.gradients);
  HopperParams p = MakeHopperParams(args.spec, args.documents, args.tokens, args.in);
  p.out = static_cast<const bf16*>(args.out);
  p.dout = static_cast<const bf16*>(args.dout);
  p.lse = args.lse;
  p.dq = static_cast<bf16*>(args.gradients.q);
  p.dk = static_cast<bf16*>(args.gradients.k);
  p.dv = static_cast<bf16*>(args.gradients.v);
  if (args.rotation != nullptr && TurnsBack(args.spec, *args.rotation)) {
    p.cos = args.rotation->cos;
    p.sin = args.rotation->sin;
    p.positions = args.rotation->positions;
  }
  auto* statistics = static_cast<float2*>(args.workspace.data);
  auto* next = reinterpret_cast<int*>(static_cast<char*>(args.workspace.data) +
                                      StatisticsBytes(args.spec, args.tokens));
  CheckCuda(cudaMemsetAsync(next, 0, kCounterBytes, Handle(stream)), "cudaMemsetAsync");
  LaunchRowSums(p, statistics, stream);
  LaunchHopperKeyGradient(args.documents, p, statistics, next, stream);
  LaunchHopperQueryGradient(args.documents, p, statistics, next + 1, stream);
  CheckLaunch("AttentionBackward");
  LaunchSinkGradient(
      {.tokens = args.tokens, .heads = p.heads, .group = p.group_heads, .pairs = statistics},
      MakeSinks(args.spec, args.sinks), args.sink_gradient, stream);
  if (args.rotation != nullptr && p.cos == nullptr) RopeBackward(*args.rotation, stream);
}

}  // namespace coxswain::kernels::cuda
