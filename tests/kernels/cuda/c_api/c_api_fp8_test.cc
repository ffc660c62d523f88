// The functions of kernels/c_api/quantized.h for products in FP8: the bits of the ops that they
// call.
#include "kernels/experts/grouped_fp8_linear.h"
#include "kernels/products/fp8_gemm.h"
#include "kernels/quantize/fp8.h"
#include "kernels/quantize/fp8_turn.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_fp8_test {
namespace {

constexpr int64_t kRows = 130, kCols = 144;

// x of the test, its codes and scales in tiles, straight and turned.
struct Operands {
  const DeviceTensor x{DType::kBFloat16, Normal(kRows* kCols, 1, DType::kBFloat16)};
  const ValueTwins<uint8_t> codes{std::vector<uint8_t>(Size(kRows * Fp8Stride(kCols)))};
  const ValueTwins<uint8_t> turned{std::vector<uint8_t>(Size(kCols * Fp8Stride(kRows)))};
  const Twins scales{Floats(Size(Fp8Scales(Fp8Scaling::kTile, kRows, kCols))), DType::kFloat32};
  const Twins turned_scales{Floats(Size(Fp8Scales(Fp8Scaling::kTile, kCols, kRows))),
                            DType::kFloat32};

  coxswain_fp8_quantize_args Args() const {
    coxswain_fp8_quantize_args args{};
    args.dtype = COXSWAIN_BFLOAT16;
    args.format = COXSWAIN_E4M3;
    args.scaling = COXSWAIN_FP8_TILES;
    args.rows = kRows;
    args.cols = kCols;
    args.x = x.data();
    args.codes = codes.c.data();
    args.scales = scales.c.floats();
    args.turned_codes = turned.c.data();
    args.turned_scales = turned_scales.c.floats();
    return args;
  }
};

TEST(CApiFp8GpuTest, QuantisesBothOperands) {
  const Operands operands;
  coxswain_fp8_quantize_args args = operands.Args();
  EXPECT_EQ(coxswain_fp8_quantize_workspace_bytes(&args),
            Fp8QuantizeWorkspaceBytes(Fp8Scaling::kTile, kRows, kCols));
  EXPECT_OK(coxswain_fp8_quantize(&args, nullptr));
  Fp8Quantize(
      {.dtype = DType::kBFloat16,
       .scaling = Fp8Scaling::kTile,
       .rows = kRows,
       .cols = kCols,
       .x = operands.x.data(),
       .ldx = kCols,
       .straight = {.codes = operands.codes.op.data(), .scales = operands.scales.op.floats()},
       .turned = {.codes = operands.turned.op.data(),
                  .scales = operands.turned_scales.op.floats()}},
      TestStream());
  operands.codes.ExpectSame("codes");
  operands.turned.ExpectSame("turned codes");
  operands.scales.ExpectSame("scales");
  operands.turned_scales.ExpectSame("turned scales");
  args.rows = -1;
  EXPECT_REFUSED(coxswain_fp8_quantize(&args, nullptr), "Fp8Quantize: rows is -1");
  args.scaling = 4;
  EXPECT_REFUSED(coxswain_fp8_quantize(&args, nullptr), "scaling is 4");
  EXPECT_EQ(coxswain_fp8_stride(130), 144);
  EXPECT_EQ(coxswain_fp8_scales(COXSWAIN_FP8_TILES, kRows, kCols),
            Fp8Scales(Fp8Scaling::kTile, kRows, kCols));
  EXPECT_EQ(coxswain_fp8_scales(7, 1, 1), -1);
}

TEST(CApiFp8GpuTest, TurnsCodes) {
  std::vector<uint8_t> bytes(Size(kRows * kCols));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(7 * i + i / 256);
  const ValueTwins<uint8_t> codes(bytes);
  const ValueTwins<uint8_t> turned(std::vector<uint8_t>(Size(kCols * Fp8Stride(kRows))));
  coxswain_fp8_turn_args args{
      .rows = kRows, .cols = kCols, .codes = codes.c.data(), .turned = turned.c.data()};
  EXPECT_OK(coxswain_fp8_turn(&args, nullptr));
  Fp8Turn({.rows = kRows, .cols = kCols, .codes = codes.op.data(), .turned = turned.op.data()},
          TestStream());
  turned.ExpectSame("turned codes");
  args.cols = -1;
  EXPECT_REFUSED(coxswain_fp8_turn(&args, nullptr), "Fp8Turn: cols is -1");
}

TEST(CApiFp8GpuTest, TakesWhatIsExpectedAndObserves) {
  const Operands operands;
  const DeviceTensor expected{DType::kFloat32, Floats(1, 0.5f)};
  const Twins observed{Floats(1, 0.25f), DType::kFloat32};
  const Scratch scratch(Fp8QuantizeWorkspaceBytes(Fp8Scaling::kTensor, kRows, kCols));
  coxswain_fp8_quantize_args args = operands.Args();
  args.scaling = COXSWAIN_FP8_TENSOR;
  args.expected = expected.floats();
  args.observed = observed.c.floats();
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_fp8_quantize(&args, nullptr));
  Synchronize(nullptr);
  Fp8Quantize(
      {.dtype = DType::kBFloat16,
       .rows = kRows,
       .cols = kCols,
       .x = operands.x.data(),
       .ldx = kCols,
       .expected = expected.floats(),
       .observed = observed.op.floats(),
       .straight = {.codes = operands.codes.op.data(), .scales = operands.scales.op.floats()},
       .turned = {.codes = operands.turned.op.data(), .scales = operands.turned_scales.op.floats()},
       .workspace = scratch.workspace()},
      TestStream());
  operands.codes.ExpectSame("codes");
  operands.turned.ExpectSame("turned codes");
  observed.ExpectSame("observed");
  EXPECT_GT(observed.c.Read()[0], 0.5f);
}

// x x^T: 130 columns are no multiple of 16; of the turned operand 144 are.
TEST(CApiFp8GpuTest, MultipliesOperands) {
  if (!Fp8GemmSupports({})) GTEST_SKIP() << "this device has no products in FP8";
  const ValueTwins<uint8_t> codes(std::vector<uint8_t>(Size(kCols * Fp8Stride(kRows)), 0x38));
  const Twins scales(Floats(4, 0.5f), DType::kFloat32);
  const Twins out(Floats(Size(kCols * kCols), 2.0f));
  coxswain_fp8_gemm_args args{};
  args.output_dtype = args.bias_dtype = COXSWAIN_BFLOAT16;
  args.m = args.n = kCols;
  args.k = kRows;
  args.beta = 1.0f;
  args.a = args.b = codes.c.data();
  args.a_scales = args.b_scales = scales.c.floats();
  args.c = out.c.data();
  const Scratch scratch(coxswain_fp8_gemm_workspace_bytes(&args));
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_fp8_gemm(&args, nullptr));
  Fp8GemmArgs op{.spec = {.output_dtype = DType::kBFloat16, .bias_dtype = DType::kBFloat16}};
  op.m = op.n = op.ldc = kCols;
  op.k = kRows;
  op.beta = 1.0f;
  op.a = op.b = codes.op.data();
  op.a_scales = op.b_scales = scales.op.floats();
  op.c = out.op.data();
  op.workspace = scratch.workspace();
  Synchronize(nullptr);
  Fp8Gemm(op, TestStream());
  out.ExpectSame("c");
  args.n = 5;
  EXPECT_REFUSED(coxswain_fp8_gemm(&args, nullptr), "Fp8Gemm: n is 5");
}

TEST(CApiFp8GpuTest, MultipliesRowsOfExperts) {
  constexpr int64_t kExperts = 3, kIn = 80, kOut = 24;
  const GroupedFp8LinearSpec spec{.dtype = DType::kBFloat16,
                                  .row_format = Fp8Format::kE5M2,
                                  .experts = kExperts,
                                  .in_features = kIn,
                                  .out_features = kOut};
  const DeviceValues<int32_t> offsets({0, 60, 60, 100});
  const ValueTwins<uint8_t> x(std::vector<uint8_t>(Size(kRows * Fp8Stride(kIn)), 0x38));
  const ValueTwins<uint8_t> weight(
      std::vector<uint8_t>(Size(kExperts * kOut * Fp8Stride(kIn)), 0x3a));
  const DeviceTensor x_scale{DType::kFloat32, Floats(1, 0.5f)};
  const DeviceTensor scales{DType::kFloat32, {0.25f, 2.0f, 3.0f}};
  const DeviceTensor bias{DType::kBFloat16, Normal(kExperts * kOut, 5, DType::kBFloat16)};
  const Twins y(Floats(Size(kRows * kOut), 7.0f));
  coxswain_grouped_fp8_linear_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.row_format = COXSWAIN_E5M2;
  args.rows = kRows;
  args.experts = kExperts;
  args.in_features = kIn;
  args.out_features = kOut;
  args.offsets = offsets.data();
  args.x = x.c.data();
  args.x_scale = x_scale.floats();
  args.weight = weight.c.data();
  args.weight_scales = scales.floats();
  args.bias = bias.data();
  args.y = y.c.data();
  EXPECT_EQ(coxswain_grouped_fp8_linear_workspace_bytes(&args),
            GroupedFp8LinearWorkspaceBytes(spec, kRows));
  if (!GroupedFp8LinearSupports(spec)) {
    EXPECT_REFUSED(coxswain_grouped_fp8_linear(&args, nullptr), "GroupedFp8Linear");
    return;
  }
  EXPECT_OK(coxswain_grouped_fp8_linear(&args, nullptr));
  GroupedFp8Linear({.spec = spec,
                    .rows = kRows,
                    .offsets = offsets.data(),
                    .x = x.op.data(),
                    .x_scale = x_scale.floats(),
                    .weight = weight.op.data(),
                    .weight_scales = scales.floats(),
                    .bias = bias.data(),
                    .y = y.op.data()},
                   TestStream());
  y.ExpectSame("y");
  args.row_format = 2;
  EXPECT_REFUSED(coxswain_grouped_fp8_linear(&args, nullptr), "format is 2");
}

}  // namespace
}  // namespace gpu_c_api_fp8_test
}  // namespace coxswain::kernels
