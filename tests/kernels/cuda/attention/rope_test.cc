#include "kernels/rope.h"

#include <algorithm>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/heads.h"

namespace coxswain::kernels {
namespace gpu_rope_test {
namespace {

constexpr int64_t kPositions = 512;

struct Problem {
  Problem(const RopeSpec& spec, int64_t tokens)
      : spec(spec),
        tokens(tokens),
        table(BuildRopeTable({.rotated = RotatedElements(spec)}, kPositions)),
        cos(DType::kFloat32, table.cos),
        sin(DType::kFloat32, table.sin),
        positions(Positions(tokens)),
        device_positions(positions),
        query_scale(BuildQueryScale(0.5, 32, kPositions)),
        device_query_scale(DType::kFloat32, query_scale) {}
  // Documents of 97 tokens, and the last position of the table.
  static std::vector<int32_t> Positions(int64_t tokens) {
    std::vector<int32_t> positions;
    for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t % 97));
    if (tokens > 1) positions.back() = kPositions - 1;
    return positions;
  }
  int64_t row() const { return (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim; }
  RopeArgs Args(void* qkv) const {
    return {.spec = spec,
            .tokens = tokens,
            .qkv = qkv,
            .cos = cos.floats(),
            .sin = sin.floats(),
            .positions = device_positions.data(),
            .query_scale = scaled ? device_query_scale.floats() : nullptr};
  }
  // The row of token t turned by the table's own cosines and sines; q scaled where it is.
  Doubles Want(const Floats& qkv, int64_t t, double sign) const {
    Doubles row(qkv.begin() + t * this->row(), qkv.begin() + (t + 1) * this->row());
    const int64_t rotated = RotatedElements(spec);
    const int64_t half = rotated / 2, at = positions[Size(t)] * half;
    const Doubles c(table.cos.begin() + at, table.cos.begin() + at + half);
    const Doubles s(table.sin.begin() + at, table.sin.begin() + at + half);
    for (int64_t h = 0; h < spec.num_heads + spec.num_kv_heads; ++h) {
      reference::RotateHead(rotated, c.data(), s.data(), sign, &row[Size(h * spec.head_dim)],
                            spec.interleaved);
    }
    const double scale = scaled ? query_scale[Size(positions[Size(t)])] : 1.0;
    for (int64_t i = 0; i < spec.num_heads * spec.head_dim; ++i) row[Size(i)] *= scale;
    return row;
  }

  RopeSpec spec;
  int64_t tokens;
  bool scaled = false;
  RopeTable table;
  DeviceTensor cos, sin;
  std::vector<int32_t> positions;
  DeviceValues<int32_t> device_positions;
  Floats query_scale;  // below 3
  DeviceTensor device_query_scale;
};

// Two products and a sum of float32, magnitudes below 2 x 6, then one rounding to the type. A scale
// enlarges both and adds a product.
double Bound(const Problem& p) {
  const double plain = 3 * 0x1p-24 * 12 + kUnit(p.spec.dtype) * 8.5;
  return p.scaled ? 3 * (plain + 0x1p-24 * 12) : plain;
}

void CheckRow(const Problem& p, const Floats& qkv, const Floats& got, int64_t t, double sign) {
  const Floats row(got.begin() + t * p.row(), got.begin() + (t + 1) * p.row());
  ExpectWithin(row, p.Want(qkv, t, sign), Bound(p),
               std::string(Name(p.spec.dtype)) + " head_dim " + std::to_string(p.spec.head_dim) +
                   " token " + std::to_string(t));
  const int64_t dim = p.spec.head_dim, v = (p.spec.num_heads + p.spec.num_kv_heads) * dim;
  for (int64_t i = 0; i < p.row(); ++i) {
    if (i < v && i % dim < RotatedElements(p.spec)) continue;
    if (p.scaled && i < p.spec.num_heads * dim) continue;
    ASSERT_EQ(row[Size(i)], qkv[Size(t * p.row() + i)]) << "element " << i << " of token " << t;
  }
}

void CheckBothWays(const Problem& p) {
  const Floats qkv = Normal(p.tokens * p.row(), 1, p.spec.dtype);
  const DeviceTensor forward(p.spec.dtype, qkv), backward(p.spec.dtype, qkv);
  RopeForward(p.Args(forward.data()), TestStream());
  RopeBackward(p.Args(backward.data()), TestStream());
  const Floats turned = forward.Read(), back = backward.Read();
  for (int64_t t = 0; t < p.tokens; ++t) {
    CheckRow(p, qkv, turned, t, 1.0);
    CheckRow(p, qkv, back, t, -1.0);
    if (testing::Test::HasFailure()) return;
  }
}

// (dtype, interleaved)
class RopeGpuTest : public testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  RopeSpec Spec(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotated = 0) const {
    return {.dtype = std::get<0>(GetParam()),
            .num_heads = heads,
            .num_kv_heads = kv_heads,
            .head_dim = head_dim,
            .rotated = rotated,
            .interleaved = std::get<1>(GetParam())};
  }
};

TEST_P(RopeGpuTest, MatchesReferenceForEveryHeadSize) {
  for (const int64_t head_dim : {2, 6, 8, 10, 16, 64, 80, 96, 128, 256}) {
    for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {3, 1}, {14, 2}, {28, 4}}) {
      for (const int64_t tokens : {0, 1, 131}) {
        CheckBothWays(Problem(Spec(heads, kv_heads, head_dim), tokens));
        if (HasFailure()) return;
      }
    }
  }
}

// Halves of vectors and not, heads that do not begin at one.
TEST_P(RopeGpuTest, RotatesTheFirstElementsOfEachHeadAndScalesAllOfQ) {
  for (const auto& [head_dim, rotated] : {std::pair{3, 2},
                                          {8, 6},
                                          {20, 16},
                                          {64, 16},
                                          {64, 64},
                                          {80, 32},
                                          {80, 20},
                                          {96, 48},
                                          {128, 96},
                                          {256, 64}}) {
    for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {14, 2}}) {
      Problem p(Spec(heads, kv_heads, head_dim, rotated), 131);
      for (const bool scaled : {false, true}) {
        p.scaled = scaled;
        CheckBothWays(p);
        if (HasFailure()) return;
      }
    }
  }
}

// Heads that start between two vectors.
TEST_P(RopeGpuTest, TakesUnalignedRows) {
  const Problem p(Spec(3, 1, 16), 11);
  Floats shifted = Normal(p.tokens * p.row() + 1, 2, p.spec.dtype);
  const Floats qkv(shifted.begin() + 1, shifted.end());
  const DeviceTensor device(p.spec.dtype, shifted);
  RopeForward(p.Args(static_cast<char*>(device.data()) + DTypeBytes(p.spec.dtype)), TestStream());
  const Floats all = device.Read(), got(all.begin() + 1, all.end());
  EXPECT_EQ(all[0], shifted[0]);
  for (int64_t t = 0; t < p.tokens; ++t) CheckRow(p, qkv, got, t, 1.0);
}

// Rows of Qwen2.5-0.5B and 7B, sampled; turning again gives the same bits.
TEST_P(RopeGpuTest, MatchesReferenceAtModelShapes) {
  const struct {
    int64_t heads, kv_heads, head_dim, tokens;
  } shapes[] = {{14, 2, 64, 4099}, {28, 4, 128, 1031}};
  for (const auto& s : shapes) {
    const Problem p(Spec(s.heads, s.kv_heads, s.head_dim), s.tokens);
    const Floats qkv = Normal(s.tokens * p.row(), 3, p.spec.dtype);
    const DeviceTensor first(p.spec.dtype, qkv), second(p.spec.dtype, qkv);
    RopeForward(p.Args(first.data()), TestStream());
    RopeForward(p.Args(second.data()), TestStream());
    const Floats got = first.Read();
    EXPECT_TRUE(SameBits(got, second.Read()));
    for (int64_t t = 0; t < s.tokens; t += 37) CheckRow(p, qkv, got, t, 1.0);
    CheckRow(p, qkv, got, s.tokens - 1, 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, RopeGpuTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "Interleaved" : "HalfSplit");
                         });

}  // namespace
}  // namespace gpu_rope_test
}  // namespace coxswain::kernels
