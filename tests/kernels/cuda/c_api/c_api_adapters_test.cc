// The functions of kernels/c_api/adapters.h: the bits of the ops that they call. A LoRA linear
// alone: c_api_layers_test.cc.
#include "kernels/activations/dropout.h"
#include "kernels/lora/dora.h"
#include "kernels/lora/lora_gated_linear.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_adapters_test {
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

// Gate and up of 40 columns each; backward as a down projection back to them.
class CApiLoraGatedGpuTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 33, kIn = 48, kInner = 40, kRank = 8;

  coxswain_lora_gated_linear_args Args(int64_t in, int64_t out) const {
    coxswain_lora_gated_linear_args args{};
    args.activation = COXSWAIN_GELU_TANH;
    args.linear.dtype = COXSWAIN_BFLOAT16;
    args.linear.in_features = in;
    args.linear.rank = kRank;
    args.linear.ldy = out;
    args.linear.scale = 2.0f;
    args.linear.rows = kRows;
    args.linear.weight = w_.data();
    args.linear.a = a_.data();
    return args;
  }
  LoraLinearSpec SpecOf(int64_t in, std::span<const LoraMember> members, int64_t out) const {
    return {.dtype = kType,
            .in_features = in,
            .rank = kRank,
            .members = members,
            .ldy = out,
            .scale = 2.0f};
  }

  const DeviceTensor x_{kType, Normal(kRows* kIn, 1, kType)};
  const DeviceTensor w_{kType, Normal(2 * kInner * kIn, 2, kType, 0.1f)};
  const DeviceTensor a_{kType, Normal(2 * kRank * kIn, 3, kType, 0.1f)};
  const DeviceTensor b0_{kType, Normal(kIn* kRank, 4, kType, 0.1f)};
  const DeviceTensor b1_{kType, Normal(kIn* kRank, 5, kType, 0.1f)};
};

TEST_F(CApiLoraGatedGpuTest, Forward) {
  const LoraMember members[] = {{.out_features = kInner, .b = b0_.data()},
                                {.out_features = kInner, .column_offset = kInner, .b = b1_.data()}};
  const Twins h{Floats(Size(kRows * 2 * kRank))}, gate_up{Floats(Size(kRows * 2 * kInner))};
  const Twins product{Floats(Size(kRows * kInner))};
  coxswain_lora_gated_linear_args args = Args(kIn, 2 * kInner);
  args.linear.members = 2;
  for (size_t j = 0; j < 2; ++j) {
    args.linear.out_features[j] = members[j].out_features;
    args.linear.column_offset[j] = members[j].column_offset;
    args.linear.b[j] = members[j].b;
  }
  args.linear.x = x_.data();
  args.linear.h = h.c.data();
  args.linear.y = gate_up.c.data();
  args.product = product.c.data();
  const Scratch scratch(coxswain_lora_linear_forward_workspace_bytes(&args.linear));
  args.linear.workspace = Lent(scratch);
  EXPECT_OK(coxswain_lora_gated_linear_forward(&args, nullptr));
  Synchronize(nullptr);  // one scratch
  LoraGatedLinearForward({.linear = {.spec = SpecOf(kIn, members, 2 * kInner),
                                     .rows = kRows,
                                     .x = x_.data(),
                                     .weight = w_.data(),
                                     .a = a_.data(),
                                     .h = h.op.data(),
                                     .y = gate_up.op.data(),
                                     .workspace = scratch.workspace()},
                          .activation = GateActivation::kGeluTanh,
                          .product = product.op.data()},
                         TestStream());
  for (const Twins* t : {&h, &gate_up, &product}) t->ExpectSame("forward");
  args.activation = 3;
  EXPECT_REFUSED(coxswain_lora_gated_linear_forward(&args, nullptr), "activation is 3");
}

TEST_F(CApiLoraGatedGpuTest, Backward) {
  const DeviceTensor h(kType, Normal(kRows * kRank, 6, kType));
  const Twins gate_up{Normal(kRows * 2 * kInner, 7, kType)}, dx{Floats(Size(kRows * kInner))};
  const Twins da(Floats(Size(kRank * kInner)), DType::kFloat32);
  const Twins db(Floats(Size(kIn * kRank)), DType::kFloat32);
  const LoraMember member{.out_features = kIn, .b = b0_.data(), .db = db.op.data()};
  coxswain_lora_gated_linear_args args = Args(kInner, kIn);
  args.linear.members = 1;
  args.linear.out_features[0] = kIn;
  args.linear.b[0] = b0_.data();
  args.linear.db[0] = db.c.data();
  args.linear.h = const_cast<void*>(h.data());
  args.linear.dy = x_.data();
  args.linear.da = da.c.data();
  args.linear.dx = dx.c.data();
  args.gate_up = gate_up.c.data();
  const Scratch scratch(coxswain_lora_linear_backward_workspace_bytes(&args.linear));
  args.linear.workspace = Lent(scratch);
  EXPECT_OK(coxswain_lora_gated_linear_backward(&args, nullptr));
  Synchronize(nullptr);  // one scratch
  LoraGatedLinearBackward({.linear = {.spec = SpecOf(kInner, {&member, 1}, kIn),
                                      .rows = kRows,
                                      .weight = w_.data(),
                                      .a = a_.data(),
                                      .h = h.data(),
                                      .dy = x_.data(),
                                      .da = da.op.data(),
                                      .dx = dx.op.data(),
                                      .workspace = scratch.workspace()},
                           .activation = GateActivation::kGeluTanh,
                           .gate_up = gate_up.op.data()},
                          TestStream());
  for (const Twins* t : {&gate_up, &dx, &da, &db}) t->ExpectSame("backward");
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
}  // namespace gpu_c_api_adapters_test
}  // namespace coxswain::kernels
