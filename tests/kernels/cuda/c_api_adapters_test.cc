// The functions of kernels/c_api/adapters.h: the bits of the ops that they call. LoRA:
// c_api_layers_test.cc.
#include "kernels/dora.h"
#include "kernels/dropout.h"
#include "tests/kernels/cuda/c_api_twins.h"

namespace coxswain::kernels {
namespace {

constexpr DType kType = DType::kBFloat16;

TEST(CApiAdaptersGpuTest, Dropout) {
  const int64_t rows = 9, columns = 40;
  const DeviceValues<uint32_t> step({7}), places(std::vector<uint32_t>(9, 2));
  const DeviceTensor x(kType, Normal(rows * columns, 1, kType));
  const Twins y(Normal(rows * columns, 2, kType));
  coxswain_dropout_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rate = 0.25f;
  args.rows = rows;
  args.columns = columns;
  args.key[0] = 1;
  args.key[1] = 2;
  args.site = 3;
  args.step = step.data();
  args.bins = places.data();
  args.positions = places.data();
  args.x = x.data();
  args.y = y.c.data();
  DropoutArgs op{.spec = {.dtype = kType, .columns = columns, .rate = 0.25f},
                 .mask = {.key = {1, 2},
                          .site = 3,
                          .step = step.data(),
                          .bins = places.data(),
                          .positions = places.data()},
                 .rows = rows,
                 .x = x.data(),
                 .y = y.op.data()};
  for (const bool accumulate : {true, false}) {
    args.accumulate = accumulate ? 1 : 0;
    op.accumulate = accumulate;
    EXPECT_OK(coxswain_dropout_apply(&args, nullptr));
    DropoutApply(op, TestStream());
    y.ExpectSame("dropped elements");
  }
  args.rate = 1.0f;
  EXPECT_REFUSED(coxswain_dropout_apply(&args, nullptr), "Dropout");
}

TEST(CApiAdaptersGpuTest, RowSquaresOfAWeight) {
  const int64_t rows = 12, columns = 40;
  const DeviceTensor w(kType, Normal(rows * columns, 1, kType));
  const Twins squares(Floats(12), DType::kFloat32);
  coxswain_dora_row_squares_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = rows;
  args.columns = columns;
  args.w = w.data();
  args.squares = squares.c.floats();
  EXPECT_OK(coxswain_dora_row_squares(&args, nullptr));
  DoraRowSquares({.dtype = kType,
                  .rows = rows,
                  .columns = columns,
                  .w = w.data(),
                  .squares = squares.op.floats()},
                 TestStream());
  squares.ExpectSame("squares");
  args.columns = -1;
  EXPECT_REFUSED(coxswain_dora_row_squares(&args, nullptr), "columns is -1");
}

// Two members, and columns between them that are of none.
class CApiDoraGpuTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 33, kIn = 48, kRank = 8, kLdy = 64, kFirst = 24, kSecond = 32;

  CApiDoraGpuTest() {
    spec_.members = members_;
    args_.dtype = args_.grad_dtype = COXSWAIN_BFLOAT16;
    args_.members = 2;
    args_.in_features = kIn;
    args_.rank = kRank;
    args_.ldy = kLdy;
    args_.scale = 2.0f;
    for (size_t j = 0; j < 2; ++j) {
      args_.out_features[j] = members_[j].out_features;
      args_.column_offset[j] = members_[j].column_offset;
      args_.b[j] = members_[j].b;
      args_.magnitude[j] = members_[j].magnitude;
    }
    args_.dmagnitude[0] = dm0_.c.data();
    args_.dmagnitude[1] = dm1_.c.data();
    args_.rows = kRows;
    args_.w = w_.data();
    args_.squares = squares_.floats();
    args_.a = a_.data();
    args_.norm = norm_.c.floats();
    args_.factor = factor_.c.floats();
    args_.u = u_.data();
    args_.bias = bias_.data();
    args_.y = y_.c.data();
    args_.dy = dy_.c.data();
  }
  void Factors() {
    const Scratch scratch(coxswain_dora_factors_workspace_bytes(&args_));
    EXPECT_EQ(scratch.bytes(), DoraFactorsWorkspaceBytes(spec_));
    args_.workspace = Lent(scratch);
    EXPECT_OK(coxswain_dora_factors(&args_, nullptr));
    Synchronize(nullptr);  // one scratch
    DoraFactors({.spec = spec_,
                 .w = w_.data(),
                 .squares = squares_.floats(),
                 .a = a_.data(),
                 .norm = norm_.op.floats(),
                 .factor = factor_.op.floats(),
                 .workspace = scratch.workspace()},
                TestStream());
    for (const Twins* t : {&norm_, &factor_}) t->ExpectSame("factors");
  }

  const DeviceTensor w_{kType, Normal(kLdy* kIn, 1, kType)};
  const DeviceTensor a_{kType, Normal(2 * kRank * kIn, 2, kType, 0.1f)};
  const DeviceTensor b0_{kType, Normal(kFirst* kRank, 3, kType, 0.1f)};
  const DeviceTensor b1_{kType, Normal(kSecond* kRank, 4, kType, 0.1f)};
  const DeviceTensor m0_{kType, Normal(kFirst, 5, kType)}, m1_{kType, Normal(kSecond, 6, kType)};
  const DeviceTensor squares_{DType::kFloat32, Floats(Size(kLdy), 50.0f)};
  const DeviceTensor u_{kType, Normal(kRows*kLdy, 7, kType)}, bias_{kType, Normal(kLdy, 8, kType)};
  const Twins dm0_{Floats(Size(kFirst))}, dm1_{Floats(Size(kSecond))};
  const Twins norm_{Floats(Size(kLdy)), DType::kFloat32};
  const Twins factor_{Floats(Size(kLdy)), DType::kFloat32};
  const Twins y_{Floats(Size(kRows * kLdy))}, dy_{Normal(kRows * kLdy, 9, kType)};
  const LoraMember members_[2] = {{.out_features = kFirst,
                                   .column_offset = 0,
                                   .b = b0_.data(),
                                   .magnitude = m0_.data(),
                                   .dmagnitude = dm0_.op.data()},
                                  {.out_features = kSecond,
                                   .column_offset = 32,
                                   .b = b1_.data(),
                                   .magnitude = m1_.data(),
                                   .dmagnitude = dm1_.op.data()}};
  LoraLinearSpec spec_{.dtype = kType,
                       .grad_dtype = kType,
                       .in_features = kIn,
                       .rank = kRank,
                       .ldy = kLdy,
                       .scale = 2.0f};
  coxswain_dora_args args_{};
};

TEST_F(CApiDoraGpuTest, FactorsForwardAndBackward) {
  Factors();
  EXPECT_OK(coxswain_dora_forward(&args_, nullptr));
  DoraForward({.spec = spec_,
               .rows = kRows,
               .u = u_.data(),
               .factor = factor_.op.floats(),
               .bias = bias_.data(),
               .y = y_.op.data()},
              TestStream());
  y_.ExpectSame("y");
  const Scratch scratch(coxswain_dora_backward_workspace_bytes(&args_));
  EXPECT_EQ(scratch.bytes(), DoraBackwardWorkspaceBytes(spec_, kRows));
  args_.workspace = Lent(scratch);
  EXPECT_OK(coxswain_dora_backward(&args_, nullptr));
  Synchronize(nullptr);
  DoraBackward({.spec = spec_,
                .rows = kRows,
                .u = u_.data(),
                .norm = norm_.op.floats(),
                .factor = factor_.op.floats(),
                .dy = dy_.op.data(),
                .workspace = scratch.workspace()},
               TestStream());
  for (const Twins* t : {&dy_, &dm0_, &dm1_}) t->ExpectSame("gradients");
}

TEST_F(CApiDoraGpuTest, SaysWhatWasWrong) {
  args_.members = 4;
  EXPECT_REFUSED(coxswain_dora_forward(&args_, nullptr), "members is 4, at most 3");
  args_.members = 2;
  args_.workspace = {};
  EXPECT_REFUSED(coxswain_dora_backward(&args_, nullptr), "DoraBackward: workspace of 0 bytes");
}

}  // namespace
}  // namespace coxswain::kernels
