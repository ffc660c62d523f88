// Attention over q, k and v of their own tensors gives what it gives over one packed tensor.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"
#include "tests/kernels/attention_heads.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_attention_views_test {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kLength = 96, kDocuments = 3;
constexpr int64_t kTokens = kLength * kDocuments;

double Norm(const Doubles& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

struct Case {
  DType dtype;
  int64_t dim, value_dim;
  bool dense;  // cuDNN or what else takes it, which may choose otherwise for other strides
};

class AttentionViewsGpuTest : public testing::TestWithParam<Case> {
 protected:
  AttentionSpec Spec() const {
    return {.dtype = GetParam().dtype,
            .num_heads = kHeads,
            .num_kv_heads = kKvHeads,
            .head_dim = GetParam().dim,
            .value_dim = GetParam().value_dim,
            .scale = 1.0f / std::sqrt(static_cast<float>(GetParam().dim))};
  }

  // Forward into `out`, backward into `gradients`.
  void Run(const AttentionSpec& spec, const HeadInputs& in, const DeviceTensor& out,
           const DeviceTensor& dout, const HeadOutputs& gradients) const {
    const AttentionExtents extents{.tokens = kTokens,
                                   .documents = kDocuments,
                                   .max_length = kLength,
                                   .dense = GetParam().dense};
    PrepareAttention(spec, extents, TestStream());
    const DeviceValues<int32_t> cu({0, kLength, 2 * kLength, 3 * kLength});
    const Documents documents{.count = kDocuments,
                              .cu_seqlens = cu.data(),
                              .max_length = kLength,
                              .dense = GetParam().dense};
    const DeviceTensor lse(DType::kFloat32, kTokens * kHeads);
    const Scratch forward(AttentionForwardWorkspaceBytes(spec, extents));
    const Scratch backward(AttentionBackwardWorkspaceBytes(spec, extents));
    AttentionForward({.spec = spec,
                      .tokens = kTokens,
                      .documents = documents,
                      .in = in,
                      .out = out.data(),
                      .lse = lse.floats(),
                      .workspace = forward.workspace()},
                     TestStream());
    AttentionBackward({.spec = spec,
                       .tokens = kTokens,
                       .documents = documents,
                       .in = in,
                       .out = out.data(),
                       .lse = lse.floats(),
                       .dout = dout.data(),
                       .gradients = gradients,
                       .workspace = backward.workspace()},
                      TestStream());
    Synchronize(TestStream());
  }

  void ExpectSame(const Floats& got, const Floats& want, const char* what) const {
    if (!GetParam().dense) {
      EXPECT_TRUE(SameBits(got, want)) << what;
      return;
    }
    Doubles difference = Double(want);
    for (size_t i = 0; i < got.size(); ++i) difference[i] -= got[i];
    EXPECT_LE(Norm(difference), 4 * kUnit(DType::kBFloat16) * Norm(Double(want))) << what;
  }
};

TEST_P(AttentionViewsGpuTest, EqualThoseOfOneTensor) {
  const DType dtype = GetParam().dtype;
  const int64_t dim = GetParam().dim, value_dim = GetParam().value_dim;
  const int64_t q_width = kHeads * dim, k_width = kKvHeads * dim, v_width = kKvHeads * value_dim;
  AttentionSpec spec = Spec();
  const int64_t row = PackedRow(spec);
  const Floats qkv = Normal(kTokens * row, 1, dtype);
  const DeviceTensor dout(dtype, Normal(kTokens * kHeads * value_dim, 2, dtype));
  const DeviceTensor packed(dtype, qkv), packed_out(dtype, dout.count()),
      dqkv(dtype, packed.count());
  Run(spec, PackedInputs(spec, packed.data()), packed_out, dout, PackedOutputs(spec, dqkv.data()));

  spec.q_row = q_width + 8;
  spec.kv_row = k_width + 16;
  if (value_dim != dim) spec.v_row = v_width + 24;
  const int64_t v_row = ValueRow(spec);
  const Floats k_values = Columns(qkv, row, q_width, k_width, spec.kv_row);
  const Floats v_values = Columns(qkv, row, q_width + k_width, v_width, v_row);
  const DeviceTensor q(dtype, Columns(qkv, row, 0, q_width, spec.q_row)), k(dtype, k_values),
      v(dtype, v_values), out(dtype, dout.count());
  const DeviceTensor dq(dtype, Floats(static_cast<size_t>(q.count()), 7.0f)), dk(dtype, k_values),
      dv(dtype, v_values);
  Run(spec, {q.data(), k.data(), v.data()}, out, dout, {dq.data(), dk.data(), dv.data()});

  const Floats want = dqkv.Read();
  ExpectSame(out.Read(), packed_out.Read(), "out");
  ExpectSame(dq.Read(), Columns(want, row, 0, q_width, spec.q_row), "dq");
  ExpectSame(dk.Read(), Columns(want, row, q_width, k_width, spec.kv_row), "dk");
  ExpectSame(dv.Read(), Columns(want, row, q_width + k_width, v_width, v_row), "dv");
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, AttentionViewsGpuTest,
    testing::Values(Case{DType::kFloat32, 24, 24, false}, Case{DType::kFloat32, 24, 16, false},
                    Case{DType::kBFloat16, 64, 64, false}, Case{DType::kBFloat16, 128, 128, false},
                    Case{DType::kBFloat16, 256, 256, false}, Case{DType::kBFloat16, 24, 16, false},
                    Case{DType::kBFloat16, 192, 128, false}, Case{DType::kBFloat16, 64, 64, true},
                    Case{DType::kBFloat16, 80, 80, true}, Case{DType::kBFloat16, 192, 128, true}));

}  // namespace
}  // namespace gpu_attention_views_test
}  // namespace coxswain::kernels
