// The table's default is the fused body where it runs, so that these tests compare it; spec and
// rows that it does not run take the plain one.
#include "kernels/products/gated_linear.h"

#include "kernels/activations/gates.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/gates.h"

namespace coxswain::kernels {
namespace gpu_gated_linear_test {
namespace {

constexpr GateActivation kActivations[] = {GateActivation::kSilu, GateActivation::kGeluTanh,
                                           GateActivation::kGelu};

struct Case {
  int64_t rows, hidden, intermediate;
  int64_t step = 1;  // every step-th row is compared with the reference
  DType dtype = DType::kBFloat16;
  GateActivation activation = GateActivation::kSilu;
};

std::string Describe(const Case& c) {
  return std::string(Name(c.dtype)) + " T " + std::to_string(c.rows) + " H " +
         std::to_string(c.hidden) + " I " + std::to_string(c.intermediate) + " activation " +
         std::to_string(static_cast<int>(c.activation));
}

// The op that the results are held against, on the device.
void Activate(const Case& c, const DeviceTensor& gate_up, const DeviceTensor& y) {
  if (c.activation == GateActivation::kSilu) {
    SwigluForward({.spec = {.dtype = c.dtype, .intermediate = c.intermediate},
                   .rows = c.rows,
                   .gate_up = gate_up.data(),
                   .y = y.data()},
                  TestStream());
  } else {
    GegluForward({.spec = {.dtype = c.dtype,
                           .intermediate = c.intermediate,
                           .tanh = c.activation == GateActivation::kGeluTanh},
                  .rows = c.rows,
                  .gate_up = gate_up.data(),
                  .y = y.data()},
                 TestStream());
  }
}

// dy becomes y.
void ActivationGradient(const Case& c, const DeviceTensor& gate_up, const DeviceTensor& dy) {
  if (c.activation == GateActivation::kSilu) {
    SwigluBackward({.spec = {.dtype = c.dtype, .intermediate = c.intermediate},
                    .rows = c.rows,
                    .dy = dy.data(),
                    .gate_up = gate_up.data(),
                    .y = dy.data()},
                   TestStream());
  } else {
    GegluBackward({.spec = {.dtype = c.dtype,
                            .intermediate = c.intermediate,
                            .tanh = c.activation == GateActivation::kGeluTanh},
                   .rows = c.rows,
                   .dy = dy.data(),
                   .gate_up = gate_up.data(),
                   .y = dy.data()},
                  TestStream());
  }
}

struct Problem {
  Case c;
  Floats x, gate_up_weight, down_weight;
  DeviceTensor device_x, device_gate_up_weight, device_down_weight;
  Scratch scratch{GemmWorkspaceBytes()};

  explicit Problem(const Case& in)
      : c(in),
        x(Normal(c.rows * c.hidden, 1, c.dtype)),
        gate_up_weight(Normal(2 * c.intermediate * c.hidden, 2, c.dtype, Scale())),
        down_weight(Normal(c.hidden * c.intermediate, 3, c.dtype, Scale())),
        device_x(c.dtype, x),
        device_gate_up_weight(c.dtype, gate_up_weight),
        device_down_weight(c.dtype, down_weight) {}
  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(c.hidden)); }
  GatedLinearSpec spec() const {
    return {.dtype = c.dtype,
            .hidden = c.hidden,
            .intermediate = c.intermediate,
            .activation = c.activation};
  }
  void Forward(const DeviceTensor& gate_up, const DeviceTensor* y) const {
    GatedLinearForward({.spec = spec(),
                        .rows = c.rows,
                        .x = device_x.data(),
                        .weight = device_gate_up_weight.data(),
                        .gate_up = gate_up.data(),
                        .y = y == nullptr ? nullptr : y->data(),
                        .workspace = scratch.workspace()},
                       TestStream());
  }
  void Backward(const DeviceTensor& gate_up, const DeviceTensor& y, bool wants_y) const {
    GatedLinearBackward({.spec = spec(),
                         .rows = c.rows,
                         .dout = device_x.data(),
                         .weight = device_down_weight.data(),
                         .gate_up = gate_up.data(),
                         .y = y.data(),
                         .wants_y = wants_y,
                         .workspace = scratch.workspace()},
                        TestStream());
  }
  // silu'(100) and gelu'(100) are 1 in float32, exactly: where up is 1, the gradient of gate is dy.
  Floats Dy() const {
    Floats gate_up(Size(c.rows * 2 * c.intermediate), 1.0f), dy;
    for (int64_t t = 0; t < c.rows; ++t) {
      std::fill_n(gate_up.begin() + t * 2 * c.intermediate, c.intermediate, 100.0f);
    }
    const DeviceTensor device(c.dtype, gate_up), y(c.dtype, c.rows * c.intermediate);
    Backward(device, y, false);
    gate_up = device.Read();
    for (int64_t t = 0; t < c.rows; ++t) {
      const auto row = gate_up.begin() + t * 2 * c.intermediate;
      dy.insert(dy.end(), row, row + c.intermediate);
    }
    return dy;
  }
};

// A sum of k products, exact in float32, in any order is within k u of the sum of their sizes;
// tensor cores cut where float32 rounds, which doubles u. Then one rounding.
// b_at(l, j): element l of the sum for column j.
template <typename BAt>
void ExpectProduct(const Problem& p, const Floats& out, int64_t columns, const BAt& b_at) {
  const Case& c = p.c;
  const double unit = kUnit(DType::kFloat32), k = static_cast<double>(c.hidden);
  for (int64_t t = 0; t < c.rows; t += c.step) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < c.hidden; ++l) {
        const double term = static_cast<double>(p.x[Size(t * c.hidden + l)]) * b_at(l, j);
        sum += term;
        size += std::abs(term);
      }
      const double bound = 2 * k * unit * size + kUnit(c.dtype) * std::abs(sum);
      ASSERT_LE(std::abs(out[Size(t * columns + j)] - sum), bound)
          << Describe(c) << " row " << t << " column " << j << ": " << out[Size(t * columns + j)]
          << ", expected " << sum;
    }
  }
}

void CheckForward(const Problem& p) {
  const Case& c = p.c;
  const int64_t n = c.intermediate;
  const DeviceTensor gate_up(c.dtype, c.rows * 2 * n), y(c.dtype, c.rows * n);
  p.Forward(gate_up, &y);
  const Floats values = gate_up.Read();
  ExpectProduct(p, values, 2 * n,
                [&](int64_t l, int64_t j) { return p.gate_up_weight[Size(j * c.hidden + l)]; });
  const DeviceTensor plain(c.dtype, c.rows * n);
  Activate(c, gate_up, plain);
  EXPECT_TRUE(SameBits(y.Read(), plain.Read())) << Describe(c) << ": y is the unit of gate_up";
  const DeviceTensor again(c.dtype, c.rows * 2 * n);
  p.Forward(again, nullptr);
  EXPECT_TRUE(SameBits(again.Read(), values)) << Describe(c) << ": same bits, y wanted or not";
}

void CheckBackward(const Problem& p) {
  const Case& c = p.c;
  const int64_t n = c.intermediate;
  const Floats dy = p.Dy();
  ExpectProduct(p, dy, n, [&](int64_t l, int64_t j) { return p.down_weight[Size(l * n + j)]; });
  const Floats gate_up = Normal(c.rows * 2 * n, 4, c.dtype, 2.0f);
  const DeviceTensor plain(c.dtype, gate_up), plain_y(c.dtype, dy);
  ActivationGradient(c, plain, plain_y);
  for (const bool wants_y : {false, true}) {
    const DeviceTensor fused(c.dtype, gate_up), y(c.dtype, c.rows * n);
    p.Backward(fused, y, wants_y);
    EXPECT_TRUE(SameBits(fused.Read(), plain.Read())) << Describe(c) << " y " << wants_y;
    EXPECT_TRUE(!wants_y || SameBits(y.Read(), plain_y.Read())) << Describe(c);
  }
}

void Check(const Case& c) {
  const Problem p(c);
  CheckForward(p);
  CheckBackward(p);
}

TEST(GatedLinearGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t rows : {1, 63, 64, 65, 131, 257}) Check({rows, 512, 136, 7});
  for (const int64_t intermediate : {8, 24, 32, 40, 120, 128, 248, 256, 264}) {
    Check({130, 520, intermediate, 13});
  }
  for (const int64_t hidden : {8, 24, 32, 40, 64, 72, 488, 512, 520, 1032}) {
    Check({66, hidden, 40, 5});
  }
}

TEST(GatedLinearGpuTest, MatchesReferenceForModels) {
  Check({1031, 896, 4864, 211});
  Check({131, 3584, 2368, 97});
}

// Every block walks several tiles.
TEST(GatedLinearGpuTest, MatchesReferenceForManyTiles) {
  Check({9001, 512, 1032, 997});
  Check({4096, 1536, 2240, 511});
}

TEST(GatedLinearGpuTest, TakesThePlainWayOtherwise) {
  for (const GateActivation activation : kActivations) {
    Check({33, 512, 36, 1, DType::kBFloat16, activation});
    Check({33, 516, 40, 1, DType::kBFloat16, activation});
    Check({33, 40, 24, 1, DType::kFloat32, activation});
    Check({7, 31, 17, 1, DType::kFloat32, activation});
  }
}

// What a tile makes of its elements differs from SiLU, where it finds them does not.
TEST(GatedLinearGpuTest, GeluMatchesReference) {
  for (const GateActivation activation : {GateActivation::kGeluTanh, GateActivation::kGelu}) {
    for (const int64_t rows : {1, 65, 257}) {
      Check({rows, 520, 136, 7, DType::kBFloat16, activation});
    }
    Check({1031, 896, 4864, 211, DType::kBFloat16, activation});
    Check({9001, 512, 1032, 997, DType::kBFloat16, activation});
  }
}

TEST(GatedLinearGpuTest, TheTableTellsActivationsApart) {
  const Case c{320, 648, 256, 29};
  for (const GateActivation activation : kActivations) {
    CheckForward(Problem({c.rows, c.hidden, c.intermediate, c.step, c.dtype, activation}));
  }
  const std::string table = GemmTable();
  int rows = 0;
  for (size_t at = 0; (at = table.find(R"("hidden": 648)", at)) != std::string::npos; ++at) ++rows;
  EXPECT_EQ(rows, 3);
  EXPECT_NE(table.find(R"("activation": "gelu_tanh")"), std::string::npos);
  EXPECT_NE(table.find(R"("activation": "gelu")"), std::string::npos);
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_EQ(GemmTable(), table);
}

TEST(GatedLinearGpuTest, TunedHoldsTheSameBoundAndTheTableKeepsTheChoice) {
  const Problem p({384, 896, 1024, 29});
  CheckForward(p);
  SetGemmTuning(true);
  const DeviceTensor gate_up(DType::kBFloat16, 384 * 2048), y(DType::kBFloat16, 384 * 1024);
  p.Forward(gate_up, &y);
  SetMemory(gate_up.data(), 0, 384 * 2048 * 2, TestStream());
  p.Backward(gate_up, y, true);
  SetGemmTuning(false);
  CheckForward(p);
  CheckBackward(p);
  const std::string table = GemmTable();
  EXPECT_NE(table.find("\"gated\""), std::string::npos);
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_EQ(GemmTable(), table);
}

TEST(GatedLinearGpuTest, TheTableDecides) {
  const Problem p({256, 640, 512, 29});
  CheckForward(p);
  std::string table = GemmTable();
  const std::string key = R"("hidden": 640)", fused = R"("fused": true)";
  const size_t at = table.find(fused, table.find(key));
  ASSERT_NE(at, std::string::npos);
  table.replace(at, fused.size(), R"("fused": false)");
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_EQ(GemmTable(), table);
  CheckForward(p);
}

TEST(GatedLinearGpuTest, CapturesAndReplays) {
  const Problem p({300, 896, 264});
  const DeviceTensor gate_up(DType::kBFloat16, 300 * 528), y(DType::kBFloat16, 300 * 264);
  p.Forward(gate_up, &y);
  const Floats want = y.Read();
  Graph* graph = CaptureGraph([&] { p.Forward(gate_up, &y); }, TestStream());
  for (int i = 0; i < 2; ++i) {
    SetMemory(y.data(), 0xff, 300 * 264 * 2, TestStream());
    LaunchGraph(graph, TestStream());
    EXPECT_TRUE(SameBits(y.Read(), want));
  }
  DestroyGraph(graph);
}

TEST(GatedLinearGpuTest, NoRowsDoNothing) {
  const GatedLinearSpec spec{.dtype = DType::kBFloat16, .hidden = 512, .intermediate = 8};
  GatedLinearForward({.spec = spec}, TestStream());
  GatedLinearBackward({.spec = spec}, TestStream());
  EXPECT_FALSE(GatedLinearSupports({.dtype = DType::kBFloat16, .hidden = 0, .intermediate = 8}));
  EXPECT_THROW(GatedLinearForward({.spec = spec, .rows = -1}, TestStream()), std::invalid_argument);
}

}  // namespace
}  // namespace gpu_gated_linear_test
}  // namespace coxswain::kernels
