// The table's default is the one launch where it runs, so that these tests compare it; specs that
// it does not run take the plain body.
#include "kernels/products/rotated_linear.h"

#include "kernels/cuda/products/rotated_product.h"
#include "kernels/cuda/stream.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_rotated_linear_test {
namespace {

constexpr int64_t kPositions = 512;

struct Case {
  RopeSpec rope;
  int64_t in, tokens;
  bool bias = true;
  int64_t step = 1;  // every step-th row is compared with the reference
};

Case Heads(int64_t heads, int64_t kv_heads, int64_t dim, int64_t in, int64_t tokens) {
  return {.rope = {.dtype = DType::kBFloat16,
                   .num_heads = heads,
                   .num_kv_heads = kv_heads,
                   .head_dim = dim},
          .in = in,
          .tokens = tokens};
}

std::vector<int32_t> Positions(int64_t tokens) {
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t * 7 % 97));
  positions.back() = kPositions - 1;  // one token, too, turns
  return positions;
}

// cos 1 and sin 0: what turns stays as it is.
RopeTable Still(const RopeTable& table) {
  return {table.positions, Floats(table.cos.size(), 1.0f), Floats(table.sin.size(), 0.0f)};
}

struct Problem {
  explicit Problem(const Case& in)
      : c(in),
        columns((c.rope.num_heads + 2 * c.rope.num_kv_heads) * c.rope.head_dim),
        x(Normal(c.tokens * c.in, 1, c.rope.dtype)),
        weight(Normal(columns * c.in, 2, c.rope.dtype, 1.0f / std::sqrt(static_cast<float>(c.in)))),
        bias(Normal(columns, 3, c.rope.dtype)),
        table(BuildRopeTable({.rotated = RotatedElements(c.rope)}, kPositions)),
        device_x(c.rope.dtype, x),
        device_weight(c.rope.dtype, weight),
        device_bias(c.rope.dtype, bias),
        positions(Positions(c.tokens)) {}

  // What `run` makes of the case with this table.
  template <typename Run>
  Floats Compute(const RopeTable& turns, const Run& run) const {
    const DeviceTensor cos(DType::kFloat32, turns.cos), sin(DType::kFloat32, turns.sin);
    const DeviceTensor qkv(c.rope.dtype, c.tokens * columns);
    run(RotatedLinearArgs{.in_features = c.in,
                          .x = device_x.data(),
                          .weight = device_weight.data(),
                          .bias = c.bias ? device_bias.data() : nullptr,
                          .rope = {.spec = c.rope,
                                   .tokens = c.tokens,
                                   .qkv = qkv.data(),
                                   .cos = cos.floats(),
                                   .sin = sin.floats(),
                                   .positions = positions.data()},
                          .workspace = scratch.workspace()});
    return qkv.Read();
  }
  Floats Forward(const RopeTable& turns) const {
    return Compute(turns, [](const auto& args) { RotatedLinearForward(args, TestStream()); });
  }
  // `product` turned by rope.h.
  Floats Turned(const Floats& product) const {
    return Compute(table, [&](const RotatedLinearArgs& args) {
      const DeviceTensor qkv(c.rope.dtype, product);
      RopeArgs rope = args.rope;
      rope.qkv = qkv.data();
      RopeForward(rope, TestStream());
      CopyMemory(args.rope.qkv, qkv.data(), qkv.count() * DTypeBytes(c.rope.dtype), TestStream());
      Synchronize(TestStream());
    });
  }

  Case c;
  int64_t columns;
  Floats x, weight, bias;
  RopeTable table;
  DeviceTensor device_x, device_weight, device_bias;
  DeviceValues<int32_t> positions;
  Scratch scratch{GemmWorkspaceBytes()};
};

// As derived in gated_linear_test.cc; the bias is one term more.
void ExpectProduct(const Problem& p, const Floats& out) {
  const Case& c = p.c;
  const double unit = kUnit(DType::kFloat32), k = static_cast<double>(c.in + 1);
  for (int64_t t = 0; t < c.tokens; t += c.step) {
    for (int64_t j = 0; j < p.columns; ++j) {
      double sum = c.bias ? p.bias[Size(j)] : 0.0, size = std::abs(sum);
      for (int64_t l = 0; l < c.in; ++l) {
        const double term = static_cast<double>(p.x[Size(t * c.in + l)]) *
                            static_cast<double>(p.weight[Size(j * c.in + l)]);
        sum += term;
        size += std::abs(term);
      }
      const double bound = 2 * k * unit * size + kUnit(c.rope.dtype) * std::abs(sum);
      ASSERT_LE(std::abs(out[Size(t * p.columns + j)] - sum), bound)
          << "row " << t << " column " << j << ": " << out[Size(t * p.columns + j)] << ", expected "
          << sum;
    }
  }
}

void Check(const Case& c) {
  SCOPED_TRACE(testing::Message() << Name(c.rope.dtype) << " " << c.rope.num_heads << "/"
                                  << c.rope.num_kv_heads << " x " << c.rope.head_dim << " K "
                                  << c.in << " T " << c.tokens);
  const Problem p(c);
  const Floats product = p.Forward(Still(p.table)), turned = p.Forward(p.table);
  ExpectProduct(p, product);
  EXPECT_TRUE(SameBits(turned, p.Turned(product)));
  EXPECT_FALSE(SameBits(turned, product));
  EXPECT_TRUE(SameBits(turned, p.Forward(p.table)));
}

TEST(RotatedLinearGpuTest, TurnsWhatTheProductPutsOut) {
  Check(Heads(14, 2, 64, 896, 517));
  Check(Heads(12, 2, 128, 384, 259));
  Check(Heads(4, 2, 256, 320, 130));
  // Columns end in the first half of a tile, in its second and with it; rows in every block of a
  // cluster; K below a step and not of whole ones.
  for (const int64_t tokens : {1, 63, 128, 129, 255, 257}) Check(Heads(3, 1, 64, 72, tokens));
  Check(Heads(1, 1, 64, 8, 200));
  Check(Heads(2, 1, 128, 64, 200));
  Check(Heads(6, 1, 64, 200, 100));
}

TEST(RotatedLinearGpuTest, TakesNoBias) {
  Case c = Heads(14, 2, 64, 128, 300);
  c.bias = false;
  Check(c);
}

// More tiles than run at once: a block has several, with positions of their own.
TEST(RotatedLinearGpuTest, ManyTiles) {
  Case c = Heads(14, 2, 64, 64, 24'000);
  c.step = 997;
  Check(c);
  c = Heads(28, 4, 128, 64, 6'000);
  c.step = 997;
  Check(c);
}

TEST(RotatedLinearGpuTest, OneLaunchWhereHeadsAreWholeInATile) {
  const int32_t position = 0;
  const auto runs = [&](const Case& c) {
    return cuda::RotatedProductRuns(
        {.in_features = c.in, .rope = {.spec = c.rope, .positions = &position}});
  };
  EXPECT_EQ(runs(Heads(14, 2, 64, 896, 1)), cuda::Capability() == 90);
  for (const int64_t dim : {32, 80, 96}) EXPECT_FALSE(runs(Heads(2, 1, dim, 64, 1))) << dim;
  EXPECT_FALSE(runs(Heads(2, 1, 64, 60, 1)));
  Case c = Heads(2, 1, 64, 64, 1);
  c.rope.rotated = 32;
  EXPECT_FALSE(runs(c));
  c.rope.rotated = 0;
  c.rope.interleaved = true;
  EXPECT_FALSE(runs(c));
  c.rope.interleaved = false;
  c.rope.dtype = DType::kFloat32;
  EXPECT_FALSE(runs(c));
}

TEST(RotatedLinearGpuTest, OthersTakeTheProductAndThePass) {
  Check(Heads(2, 1, 96, 64, 70));
  Case c = Heads(3, 1, 64, 64, 70);
  c.rope.rotated = 48;
  Check(c);
  c.rope.rotated = 0;
  c.rope.interleaved = true;
  Check(c);
  c.rope.interleaved = false;
  c.rope.dtype = DType::kFloat32;
  Check(c);
}

TEST(RotatedLinearGpuTest, RunsInACapturedGraph) {
  const Problem p(Heads(14, 2, 64, 128, 300));
  const Floats direct = p.Forward(p.table);
  const Floats replayed = p.Compute(p.table, [](const RotatedLinearArgs& args) {
    Graph* graph = CaptureGraph([&] { RotatedLinearForward(args, TestStream()); }, TestStream());
    LaunchGraph(graph, TestStream());
    Synchronize(TestStream());
    DestroyGraph(graph);
  });
  EXPECT_TRUE(SameBits(direct, replayed));
}

TEST(RotatedLinearGpuTest, TheTableHoldsItsChoice) {
  const Problem p(Heads(14, 2, 64, 136, 301));
  p.Forward(p.table);
  const std::string table = GemmTable();
  EXPECT_NE(table.find("\"rotated\""), std::string::npos);
  EXPECT_NE(table.find("\"in\": 136"), std::string::npos);
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_EQ(GemmTable(), table);
}

TEST(RotatedLinearGpuTest, RefusesWhatItDoesNotSupport) {
  RotatedLinearArgs args;
  args.rope.spec = {.dtype = DType::kBFloat16, .num_heads = 2, .num_kv_heads = 1, .head_dim = 64};
  EXPECT_THROW(RotatedLinearForward(args, TestStream()), std::invalid_argument);  // in_features 0
  args.in_features = 64;
  args.rope.tokens = -1;
  EXPECT_THROW(RotatedLinearForward(args, TestStream()), std::invalid_argument);
  args.rope.tokens = 0;
  RotatedLinearForward(args, TestStream());
  EXPECT_THROW(RotatedLinearForward(args, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace gpu_rotated_linear_test
}  // namespace coxswain::kernels
