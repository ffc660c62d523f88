// y and dx of lora_linear.h in one launch: the table's default where it runs (compute capability
// 9.0), so that sums are rounded once. What does not run there is tested by lora_linear_test.cc.
#include <memory>

#include "kernels/lora/lora_linear.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_lora_product_test {
namespace {

constexpr DType kType = DType::kBFloat16;

struct Case {
  int64_t rows, in, rank;
  std::vector<LoraMember> columns;  // out_features and column_offset of each member
  int64_t out;                      // columns of y
  int64_t step = 1;                 // every step-th row is compared
  int64_t ldy = 0;                  // 0: out
  bool bias = false;
};

// Members one behind the other.
Case Packed(int64_t rows, int64_t in, int64_t rank, const std::vector<int64_t>& out,
            int64_t step = 1) {
  Case c{.rows = rows, .in = in, .rank = rank, .columns = {}, .out = 0, .step = step};
  for (const int64_t n : out) {
    c.columns.push_back({.out_features = n, .column_offset = c.out});
    c.out += n;
  }
  return c;
}

std::string Describe(const Case& c) {
  std::string text = "T " + std::to_string(c.rows) + " K " + std::to_string(c.in) + " N " +
                     std::to_string(c.out) + " r " + std::to_string(c.rank) +
                     (c.bias ? " bias" : "") + " members";
  for (const LoraMember& member : c.columns) {
    text += " " + std::to_string(member.column_offset) + "+" + std::to_string(member.out_features);
  }
  return text;
}

float Scale(int64_t terms) { return 1.0f / std::sqrt(static_cast<float>(terms)); }

class Problem {
 public:
  explicit Problem(const Case& c)
      : c_(c),
        ldy_(c.ldy == 0 ? c.out : c.ldy),
        stacked_(static_cast<int64_t>(c.columns.size()) * c.rank),
        x_(Normal(c.rows * c.in, 1, kType)),
        w_(Normal(c.out * c.in, 2, kType, Scale(c.in))),
        a_(Normal(stacked_ * c.in, 3, kType, Scale(c.in))),
        dy_(Normal(c.rows * ldy_, 4, kType)),
        bias_(Normal(c.out, 5, kType)),
        device_x_(kType, x_),
        device_w_(kType, w_),
        device_a_(kType, a_),
        device_dy_(kType, dy_),
        device_bias_(kType, bias_),
        h_(kType, c.rows * stacked_),
        y_(kType, Floats(Size(c.rows * ldy_), kBefore)),
        dx_(kType, c.rows * c.in),
        da_(DType::kFloat32, Floats(a_.size())) {
    members_ = c.columns;
    for (size_t j = 0; j < members_.size(); ++j) {
      const int64_t count = members_[j].out_features * c.rank;
      b_.push_back(Normal(count, 10 + static_cast<unsigned>(j), kType));
      device_b_.push_back(std::make_unique<DeviceTensor>(kType, b_[j]));
      db_.push_back(std::make_unique<DeviceTensor>(DType::kFloat32, Floats(Size(count))));
      members_[j].b = device_b_[j]->data();
      members_[j].db = db_[j]->data();
    }
    spec_ = {.dtype = kType,
             .in_features = c.in,
             .rank = c.rank,
             .members = members_,
             .ldy = ldy_,
             .scale = 1.5f,
             .out_features = c.out};
    scratch_ = std::make_unique<Scratch>(LoraLinearBackwardWorkspaceBytes(spec_, c.rows));
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  void Forward() const {
    LoraLinearForward({.spec = spec_,
                       .rows = c_.rows,
                       .x = device_x_.data(),
                       .weight = device_w_.data(),
                       .bias = c_.bias ? device_bias_.data() : nullptr,
                       .a = device_a_.data(),
                       .h = h_.data(),
                       .y = y_.data(),
                       .workspace = scratch_->workspace()},
                      TestStream());
  }
  void Backward() const {
    LoraLinearBackward({.spec = spec_,
                        .rows = c_.rows,
                        .x = device_x_.data(),
                        .weight = device_w_.data(),
                        .a = device_a_.data(),
                        .h = h_.data(),
                        .dy = device_dy_.data(),
                        .da = da_.data(),
                        .dx = dx_.data(),
                        .workspace = scratch_->workspace()},
                       TestStream());
  }

  void CheckForward() const {
    Forward();
    const Floats h = h_.Read(), y = y_.Read();
    ExpectSums(
        y, {c_.rows, c_.out, ldy_, c_.step},
        [&](int64_t t, int64_t n, const auto& add) {
          if (c_.bias) add(bias_[Size(n)], 1.0f);
          for (int64_t k = 0; k < c_.in; ++k) add(x_[Size(t * c_.in + k)], w_[Size(n * c_.in + k)]);
          for (size_t j = 0; j < members_.size(); ++j) {
            const int64_t row = n - members_[j].column_offset;
            if (row < 0 || row >= members_[j].out_features) continue;
            const int64_t first = t * stacked_ + static_cast<int64_t>(j) * c_.rank;
            for (int64_t k = 0; k < c_.rank; ++k) {
              add(h[Size(first + k)], b_[j][Size(row * c_.rank + k)]);
            }
          }
        },
        Describe(c_) + " y");
    for (int64_t t = 0; t < c_.rows; ++t) {
      for (int64_t n = c_.out; n < ldy_; ++n) ASSERT_EQ(y[Size(t * ldy_ + n)], kBefore);
    }
    Forward();
    EXPECT_TRUE(SameBits(y_.Read(), y)) << Describe(c_) << ": same bits twice";
  }
  // Behind CheckForward.
  void CheckBackward() const {
    Backward();
    const Floats dx = dx_.Read(), g = ReadGradientOfH(*scratch_, c_.rows * stacked_);
    ExpectSums(
        dx, {c_.rows, c_.in, c_.in, c_.step},
        [&](int64_t t, int64_t k, const auto& add) {
          for (int64_t n = 0; n < c_.out; ++n)
            add(dy_[Size(t * ldy_ + n)], w_[Size(n * c_.in + k)]);
          for (int64_t i = 0; i < stacked_; ++i) {
            add(g[Size(t * stacked_ + i)], a_[Size(i * c_.in + k)]);
          }
        },
        Describe(c_) + " dx");
    Backward();
    EXPECT_TRUE(SameBits(dx_.Read(), dx)) << Describe(c_) << ": same bits twice";
  }
  const DeviceTensor& y() const { return y_; }

 private:
  static constexpr float kBefore = 77.0f;

  Case c_;
  int64_t ldy_, stacked_;
  Floats x_, w_, a_, dy_, bias_;
  std::vector<Floats> b_;
  DeviceTensor device_x_, device_w_, device_a_, device_dy_, device_bias_, h_, y_, dx_, da_;
  std::vector<std::unique_ptr<DeviceTensor>> device_b_, db_;
  std::vector<LoraMember> members_;
  LoraLinearSpec spec_;
  std::unique_ptr<Scratch> scratch_;
};

void Check(const Case& c) {
  const Problem p(c);
  p.CheckForward();
  p.CheckBackward();
}

class LoraProductGpuTest : public FusedLoraTest {};

TEST_F(LoraProductGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t rows : {1, 63, 64, 65, 131, 257}) Check(Packed(rows, 512, 16, {136}, 7));
  for (const int64_t in : {8, 24, 64, 72, 120, 128, 136, 248, 256, 264, 520}) {
    Check(Packed(130, in, 16, {136}, 13));
  }
  for (const int64_t out : {8, 64, 120, 128, 136, 248, 256, 264, 384, 392, 640}) {
    Check(Packed(130, 200, 16, {out}, 13));
  }
}

TEST_F(LoraProductGpuTest, MatchesReferenceForEveryRank) {
  for (const int64_t rank : {8, 16, 24, 32, 40, 64, 72, 136}) {
    Check(Packed(130, 264, rank, {392}, 13));
    Check(Packed(130, 264, rank, {128, 384, 136}, 13));
  }
}

// A tile of columns lies in one member, in two, or half in none.
TEST_F(LoraProductGpuTest, MatchesReferenceForMembers) {
  for (const int64_t rank : {8, 16, 64}) {
    Check(Packed(130, 264, rank, {256, 256}, 13));
    Check(Packed(130, 264, rank, {128, 128, 128}, 13));
    Check(Packed(130, 264, rank, {384, 8}, 13));
    Check({.rows = 130,
           .in = 264,
           .rank = rank,
           .columns = {{.out_features = 128, .column_offset = 0},
                       {.out_features = 128, .column_offset = 384}},
           .out = 512,
           .step = 13});
    Check({.rows = 130,
           .in = 264,
           .rank = rank,
           .columns = {{.out_features = 100, .column_offset = 128}},
           .out = 520,
           .step = 13});
    Check({.rows = 130,
           .in = 264,
           .rank = rank,
           .columns = {{.out_features = 256, .column_offset = 256},
                       {.out_features = 256, .column_offset = 0}},
           .out = 512,
           .step = 13});
  }
}

// Tiles of all and of half their columns, one behind the other in a block, and the end of the bias.
TEST_F(LoraProductGpuTest, MatchesReferenceWithABias) {
  for (const Case& without :
       {Packed(130, 8, 8, {8}), Packed(130, 264, 16, {392}, 13),
        Packed(130, 264, 16, {128, 384, 136}, 13), Packed(9001, 392, 16, {896, 128, 128}, 997)}) {
    Case c = without;
    c.bias = true;
    Check(c);
  }
}

TEST_F(LoraProductGpuTest, RowsOfYMayLieApart) {
  Case c = Packed(130, 264, 16, {304}, 13);
  c.ldy = 320;
  Check(c);
}

TEST_F(LoraProductGpuTest, MatchesReferenceForModels) {
  Check(Packed(1031, 896, 16, {896, 128, 128}, 211));
  Check(Packed(1031, 896, 16, {896}, 211));
  Check(Packed(519, 896, 16, {4864, 4864}, 211));
  Check(Packed(519, 4864, 64, {896}, 211));
  Check(Packed(259, 3584, 16, {3584, 512, 512}, 131));
}

// Every block walks several tiles.
TEST_F(LoraProductGpuTest, MatchesReferenceForManyTiles) {
  Check(Packed(9001, 512, 16, {1032}, 997));
  Check(Packed(9001, 392, 24, {896, 128, 128}, 997));
  Check(Packed(4096, 1536, 64, {2240}, 511));
}

TEST_F(LoraProductGpuTest, TunedHoldsTheBoundsOfLinearsAndTheTableKeepsTheChoice) {
  const Problem p(Packed(384, 904, 16, {1024}, 29));
  p.CheckForward();
  SetGemmTuning(true);
  p.Forward();
  p.Backward();
  SetGemmTuning(false);
  const std::string table = GemmTable();
  EXPECT_NE(table.find("\"lora\""), std::string::npos);
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_EQ(GemmTable(), table);
}

TEST_F(LoraProductGpuTest, TheTableDecides) {
  const Problem p(Packed(256, 648, 16, {520}, 29));
  p.CheckForward();
  const Floats fused = p.y().Read();
  std::string table = GemmTable();
  const std::string key = R"("in": 648)", yes = R"("fused": true)";
  const size_t at = table.find(yes, table.find(key));
  ASSERT_NE(at, std::string::npos);
  table.replace(at, yes.size(), R"("fused": false)");
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_EQ(GemmTable(), table);
  p.Forward();
  EXPECT_FALSE(SameBits(p.y().Read(), fused)) << "a product of its own is rounded before";
}

TEST_F(LoraProductGpuTest, CapturesAndReplays) {
  const Problem p(Packed(300, 896, 16, {264}));
  p.Forward();
  const Floats want = p.y().Read();
  Graph* graph = CaptureGraph([&] { p.Forward(); }, TestStream());
  for (int i = 0; i < 2; ++i) {
    SetMemory(p.y().data(), 0xff, 300 * 264 * 2, TestStream());
    LaunchGraph(graph, TestStream());
    EXPECT_TRUE(SameBits(p.y().Read(), want));
  }
  DestroyGraph(graph);
}

}  // namespace
}  // namespace gpu_lora_product_test
}  // namespace coxswain::kernels
