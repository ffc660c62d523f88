// The backward of attention with the rotation that came before it, beside the two in turn.
#include <algorithm>
#include <numeric>

#include "kernels/attention/attention.h"
#include "kernels/cuda/stream.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_attention_rotation_test {
namespace {

const std::vector<int32_t> kOddLengths = {1, 0, 63, 64, 65, 131, 0, 0, 2, 40};

struct Case {
  int64_t heads, kv_heads, dim;
  std::vector<int32_t> lengths = kOddLengths;
  bool dense = false;
  int64_t window = 0;
  float softcap = 0.0f;
  int64_t rotated = 0;
  bool interleaved = false;
  bool folded = true;  // where warpgroups run
};

struct Problem {
  explicit Problem(const Case& in)
      : c(in),
        tokens(std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0})),
        spec{.dtype = DType::kBFloat16,
             .num_heads = c.heads,
             .num_kv_heads = c.kv_heads,
             .head_dim = c.dim,
             .window = c.window,
             .scale = 1.0f / std::sqrt(static_cast<float>(c.dim)),
             .softcap = c.softcap},
        rope{.dtype = spec.dtype,
             .num_heads = c.heads,
             .num_kv_heads = c.kv_heads,
             .head_dim = c.dim,
             .rotated = c.rotated,
             .interleaved = c.interleaved},
        table(BuildRopeTable({.rotated = RotatedElements(rope)}, Longest())),
        cos(DType::kFloat32, table.cos),
        sin(DType::kFloat32, table.sin),
        positions(Positions()),
        device_positions(positions),
        qkv(spec.dtype, Normal(tokens * PackedRow(spec), 1, spec.dtype)),
        dout(spec.dtype, Normal(tokens * c.heads * c.dim, 2, spec.dtype)),
        out(spec.dtype, dout.count()),
        lse(DType::kFloat32, tokens * c.heads),
        cu(CuSeqlens()) {
    const AttentionExtents extents{.tokens = tokens,
                                   .documents = static_cast<int64_t>(c.lengths.size()),
                                   .max_length = Longest(),
                                   .dense = c.dense};
    PrepareAttention(spec, extents, TestStream());
    bytes = AttentionBackwardWorkspaceBytes(spec, extents);
    const Scratch scratch(AttentionForwardWorkspaceBytes(spec, extents));
    AttentionForward({.spec = spec,
                      .tokens = tokens,
                      .documents = documents(),
                      .in = PackedInputs(spec, qkv.data()),
                      .out = out.data(),
                      .lse = lse.floats(),
                      .workspace = scratch.workspace()},
                     TestStream());
    Synchronize(TestStream());
  }
  int64_t Longest() const { return *std::max_element(c.lengths.begin(), c.lengths.end()); }
  std::vector<int32_t> CuSeqlens() const {
    std::vector<int32_t> ends = {0};
    for (const int32_t length : c.lengths) ends.push_back(ends.back() + length);
    return ends;
  }
  std::vector<int32_t> Positions() const {
    std::vector<int32_t> all;
    for (const int32_t length : c.lengths) {
      for (int32_t i = 0; i < length; ++i) all.push_back(i);
    }
    return all;
  }
  Documents documents() const {
    return {.count = static_cast<int64_t>(c.lengths.size()),
            .cu_seqlens = cu.data(),
            .max_length = Longest(),
            .dense = c.dense};
  }
  RopeArgs Rotation(void* of) const {
    return {.spec = rope,
            .tokens = tokens,
            .qkv = of,
            .cos = cos.floats(),
            .sin = sin.floats(),
            .positions = device_positions.data()};
  }
  Floats Backward(bool turns_back) const {
    const DeviceTensor gradient(spec.dtype, qkv.count());
    const Scratch scratch(bytes);
    const RopeArgs rotation = Rotation(gradient.data());
    AttentionBackward({.spec = spec,
                       .tokens = tokens,
                       .documents = documents(),
                       .in = PackedInputs(spec, qkv.data()),
                       .out = out.data(),
                       .lse = lse.floats(),
                       .dout = dout.data(),
                       .gradients = PackedOutputs(spec, gradient.data()),
                       .workspace = scratch.workspace(),
                       .rotation = turns_back ? &rotation : nullptr},
                      TestStream());
    return gradient.Read();
  }

  Case c;
  int64_t tokens;
  AttentionSpec spec;
  RopeSpec rope;
  RopeTable table;
  DeviceTensor cos, sin;
  std::vector<int32_t> positions;
  DeviceValues<int32_t> device_positions;
  DeviceTensor qkv, dout, out, lse;
  DeviceValues<int32_t> cu;
  int64_t bytes = 0;
};

Floats TurnedBack(const Problem& p, const Floats& gradient) {
  const DeviceTensor turned(p.spec.dtype, gradient);
  RopeBackward(p.Rotation(turned.data()), TestStream());
  return turned.Read();
}

// `plain` is the gradient rounded, then turned and rounded; `folded` was turned before its only
// rounding. A result of c a + s b is off by a rounding of a, of b and, in either, of itself.
void ExpectOneRoundingApart(const Problem& p, const Floats& rounded, const Floats& plain,
                            const Floats& folded) {
  const int64_t row = PackedRow(p.spec), dim = p.c.dim, half = dim / 2;
  const double unit = kUnit(p.spec.dtype) * 1.02;
  for (size_t i = 0; i < plain.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i), t = at / row, column = at % row;
    if (column >= (p.c.heads + p.c.kv_heads) * dim) {
      ASSERT_EQ(folded[i], rounded[i]) << "v, row " << t;
      continue;
    }
    const int64_t pair = column % dim % half;
    const int64_t first = t * row + column / dim * dim + pair;
    const int64_t angle = p.positions[Size(t)] * half + pair;
    const double c = std::abs(p.table.cos[Size(angle)]), s = std::abs(p.table.sin[Size(angle)]);
    const double a = std::abs(rounded[Size(first)]), b = std::abs(rounded[Size(first + half)]);
    const bool is_first = column % dim < half;
    const double sizes = is_first ? c * a + s * b : c * b + s * a;
    const double results = std::abs(plain[i]) + std::abs(folded[i]);
    ASSERT_LE(std::abs(plain[i] - folded[i]), unit * (sizes + results) + 1e-30)
        << "row " << t << " column " << column;
  }
}

void Check(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.heads << "/" << c.kv_heads << " x " << c.dim << " window "
                                  << c.window << " softcap " << c.softcap << " dense " << c.dense);
  const Problem p(c);
  const Floats rounded = p.Backward(false), plain = TurnedBack(p, rounded);
  const Floats folded = p.Backward(true);
  EXPECT_TRUE(SameBits(folded, p.Backward(true)));
  if (!c.folded || cuda::Capability() != 90) {
    EXPECT_TRUE(SameBits(folded, plain));
    return;
  }
  ExpectOneRoundingApart(p, rounded, plain, folded);
  EXPECT_FALSE(SameBits(folded, plain)) << "a pass of its own";
}

TEST(AttentionRotationGpuTest, GradientsTurnBackWhereTheyAreStored) {
  for (const auto& [heads, kv_heads, dim] :
       {std::tuple{14, 2, 64}, {7, 1, 128}, {4, 2, 128}, {2, 2, 64}, {4, 2, 256}, {32, 1, 64}}) {
    Check({.heads = heads, .kv_heads = kv_heads, .dim = dim});
  }
}

TEST(AttentionRotationGpuTest, WindowsAndSoftcapsToo) {
  Check({.heads = 14, .kv_heads = 2, .dim = 64, .window = 33});
  Check({.heads = 4, .kv_heads = 2, .dim = 128, .window = 100, .softcap = 30.0f});
  Check({.heads = 4, .kv_heads = 2, .dim = 256, .window = 70});
}

TEST(AttentionRotationGpuTest, EqualAndLongDocuments) {
  Check({.heads = 14, .kv_heads = 2, .dim = 64, .lengths = {256, 256, 256}, .dense = true});
  Check({.heads = 4, .kv_heads = 2, .dim = 128, .lengths = {1024, 1024}, .dense = true});
  Check({.heads = 7, .kv_heads = 1, .dim = 64, .lengths = {3000, 5, 700}});
}

TEST(AttentionRotationGpuTest, OthersTakeAPass) {
  Check({.heads = 4, .kv_heads = 2, .dim = 96, .folded = false});
  Check({.heads = 4, .kv_heads = 2, .dim = 32, .folded = false});
  Check({.heads = 4, .kv_heads = 2, .dim = 64, .rotated = 32, .folded = false});
  Check({.heads = 4, .kv_heads = 2, .dim = 64, .interleaved = true, .folded = false});
}

}  // namespace
}  // namespace gpu_attention_rotation_test
}  // namespace coxswain::kernels
