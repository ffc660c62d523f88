// The functions of kernels/c_api/quantized.h, and the optimizer with states of 8 bits: the bits of
// the ops that they call.
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/quantize/fp8_blocks.h"
#include "kernels/quantize/int8_rows.h"
#include "kernels/quantize/mxfp4.h"
#include "kernels/quantize/nf4.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_quantized_test {
namespace {

constexpr DType kType = DType::kBFloat16;

// 300 blocks: two groups of scales. The last byte has one code.
TEST(CApiQuantizedGpuTest, Nf4DoublyQuantisedAndBack) {
  const int64_t elements = 300 * COXSWAIN_NF4_BLOCK - 1, blocks = Nf4Blocks(elements);
  const DeviceTensor in(DType::kFloat32, Normal(elements, 1, DType::kFloat32));
  const ValueTwins<uint8_t> codes(std::vector<uint8_t>(Size((elements + 1) / 2)));
  const Twins absmax(Floats(Size(blocks)), DType::kFloat32);
  coxswain_nf4_quantize_args quantize{};
  quantize.elements = elements;
  quantize.in = in.floats();
  quantize.codes = codes.c.data();
  quantize.absmax = absmax.c.floats();
  EXPECT_OK(coxswain_nf4_quantize(&quantize, nullptr));
  Nf4Quantize({.elements = elements,
               .in = in.floats(),
               .codes = codes.op.data(),
               .absmax = absmax.op.floats()},
              TestStream());
  codes.ExpectSame("codes");
  absmax.ExpectSame("absmax");

  const ValueTwins<uint8_t> scale_codes(std::vector<uint8_t>(Size(blocks), 0));
  const Twins constants(Floats(Size(Nf4Constants(elements))), DType::kFloat32);
  coxswain_nf4_quantize_scales_args scales{};
  scales.blocks = blocks;
  scales.absmax = absmax.c.floats();
  scales.codes = scale_codes.c.data();
  scales.constants = constants.c.floats();
  EXPECT_OK(coxswain_nf4_quantize_scales(&scales, nullptr));
  Nf4QuantizeScales({.blocks = blocks,
                     .absmax = absmax.op.floats(),
                     .codes = scale_codes.op.data(),
                     .constants = constants.op.floats()},
                    TestStream());
  scale_codes.ExpectSame("codes of scales");
  constants.ExpectSame("constants");

  const Twins out{Floats(Size(elements))};
  coxswain_nf4_dequantize_args dequantize{};
  dequantize.dtype = COXSWAIN_BFLOAT16;
  dequantize.elements = elements;
  dequantize.codes = codes.c.data();
  dequantize.absmax_codes = scale_codes.c.data();
  dequantize.constants = constants.c.floats();
  dequantize.out = out.c.data();
  Nf4DequantizeArgs op{.dtype = kType,
                       .elements = elements,
                       .codes = codes.op.data(),
                       .absmax_codes = scale_codes.op.data(),
                       .constants = constants.op.floats(),
                       .out = out.op.data()};
  EXPECT_OK(coxswain_nf4_dequantize(&dequantize, nullptr));
  Nf4Dequantize(op, TestStream());
  out.ExpectSame("doubly quantised");
  dequantize.absmax = absmax.c.floats();
  op.absmax = absmax.op.floats();
  EXPECT_OK(coxswain_nf4_dequantize(&dequantize, nullptr));
  Nf4Dequantize(op, TestStream());
  out.ExpectSame("quantised once");
  quantize.elements = scales.blocks = dequantize.elements = -1;
  EXPECT_REFUSED(coxswain_nf4_quantize(&quantize, nullptr), "Nf4Quantize: elements is -1");
  EXPECT_REFUSED(coxswain_nf4_quantize_scales(&scales, nullptr), "Nf4QuantizeScales: blocks is -1");
  EXPECT_REFUSED(coxswain_nf4_dequantize(&dequantize, nullptr), "Nf4Dequantize: elements is -1");
}

TEST(CApiQuantizedGpuTest, Int8RowsAndBack) {
  const int64_t rows = 5, cols = 37;
  const DeviceTensor in(DType::kFloat32, Normal(rows * cols, 1, DType::kFloat32));
  const ValueTwins<int8_t> codes(std::vector<int8_t>(Size(rows * cols)));
  const Twins absmax(Floats(Size(rows)), DType::kFloat32), out{Floats(Size(rows * cols))};
  coxswain_int8_quantize_rows_args quantize{};
  quantize.rows = rows;
  quantize.cols = cols;
  quantize.in = in.floats();
  quantize.codes = codes.c.data();
  quantize.absmax = absmax.c.floats();
  EXPECT_OK(coxswain_int8_quantize_rows(&quantize, nullptr));
  Int8QuantizeRows({.rows = rows,
                    .cols = cols,
                    .in = in.floats(),
                    .codes = codes.op.data(),
                    .absmax = absmax.op.floats()},
                   TestStream());
  codes.ExpectSame("codes");
  absmax.ExpectSame("absmax");
  coxswain_int8_dequantize_rows_args dequantize{};
  dequantize.dtype = COXSWAIN_BFLOAT16;
  dequantize.rows = rows;
  dequantize.cols = cols;
  dequantize.codes = codes.c.data();
  dequantize.absmax = absmax.c.floats();
  dequantize.out = out.c.data();
  EXPECT_OK(coxswain_int8_dequantize_rows(&dequantize, nullptr));
  Int8DequantizeRows({.dtype = kType,
                      .rows = rows,
                      .cols = cols,
                      .codes = codes.op.data(),
                      .absmax = absmax.op.floats(),
                      .out = out.op.data()},
                     TestStream());
  out.ExpectSame("values");
  quantize.cols = -1;
  dequantize.dtype = 7;
  EXPECT_REFUSED(coxswain_int8_quantize_rows(&quantize, nullptr), "Int8QuantizeRows: cols is -1");
  EXPECT_REFUSED(coxswain_int8_dequantize_rows(&dequantize, nullptr), "dtype is 7");
}

TEST(CApiQuantizedGpuTest, Mxfp4AndBack) {
  const int64_t elements = 301 * COXSWAIN_MXFP4_BLOCK, blocks = Mxfp4Blocks(elements);
  const DeviceTensor in(DType::kFloat32, Normal(elements, 1, DType::kFloat32));
  const ValueTwins<uint8_t> codes(std::vector<uint8_t>(Size(elements / 2)));
  const ValueTwins<uint8_t> scales(std::vector<uint8_t>(Size(blocks), 0));
  const Twins out{Floats(Size(elements))};
  coxswain_mxfp4_quantize_args quantize{};
  quantize.elements = elements;
  quantize.in = in.floats();
  quantize.codes = codes.c.data();
  quantize.scales = scales.c.data();
  EXPECT_OK(coxswain_mxfp4_quantize(&quantize, nullptr));
  Mxfp4Quantize({.elements = elements,
                 .in = in.floats(),
                 .codes = codes.op.data(),
                 .scales = scales.op.data()},
                TestStream());
  codes.ExpectSame("codes");
  scales.ExpectSame("scales");
  coxswain_mxfp4_dequantize_args dequantize{};
  dequantize.dtype = COXSWAIN_BFLOAT16;
  dequantize.elements = elements;
  dequantize.codes = codes.c.data();
  dequantize.scales = scales.c.data();
  dequantize.out = out.c.data();
  EXPECT_OK(coxswain_mxfp4_dequantize(&dequantize, nullptr));
  Mxfp4Dequantize({.dtype = kType,
                   .elements = elements,
                   .codes = codes.op.data(),
                   .scales = scales.op.data(),
                   .out = out.op.data()},
                  TestStream());
  out.ExpectSame("values");
  quantize.elements = dequantize.elements = elements - 1;
  EXPECT_REFUSED(coxswain_mxfp4_quantize(&quantize, nullptr),
                 "Mxfp4Quantize: elements is 9631, must be a multiple of 32");
  EXPECT_REFUSED(coxswain_mxfp4_dequantize(&dequantize, nullptr),
                 "Mxfp4Dequantize: elements is 9631, must be a multiple of 32");
}

TEST(CApiQuantizedGpuTest, Fp8Blocks) {
  const int64_t rows = 200, cols = 260, first_row = 100;
  std::vector<uint8_t> bytes(Size(rows * cols));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % 127);
  const DeviceValues<uint8_t> codes(bytes);
  const DeviceTensor scales(DType::kFloat32, Normal(3 * 3, 1, DType::kFloat32));
  const Twins out{Floats(Size(rows * cols))};
  coxswain_fp8_blocks_dequantize_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = rows;
  args.cols = cols;
  args.first_row = first_row;
  args.codes = codes.data();
  args.scales = scales.floats();
  args.out = out.c.data();
  EXPECT_OK(coxswain_fp8_blocks_dequantize(&args, nullptr));
  Fp8BlocksDequantize({.dtype = kType,
                       .rows = rows,
                       .cols = cols,
                       .first_row = first_row,
                       .codes = codes.data(),
                       .scales = scales.floats(),
                       .out = out.op.data()},
                      TestStream());
  out.ExpectSame("values");
  args.first_row = -1;
  EXPECT_REFUSED(coxswain_fp8_blocks_dequantize(&args, nullptr),
                 "Fp8BlocksDequantize: first_row is -1");
}

// A parameter in bfloat16, whose rounding draws, as a caller in C writes it.
TEST(CApiQuantizedGpuTest, AdamWWithStatesOf8Bits) {
  const int64_t n = COXSWAIN_TENSOR_CHUNK + 5, blocks = StateBlocks(n);
  const DeviceTensor g(DType::kFloat32, Normal(n, 1, DType::kFloat32));
  const DeviceValues<uint32_t> step({4});
  const Twins p(Normal(n, 2, kType));
  const ValueTwins<uint8_t> m(std::vector<uint8_t>(Size(n), 127)), v(std::vector<uint8_t>(Size(n)));
  const Twins m_absmax(Floats(Size(blocks)), DType::kFloat32);
  const Twins v_absmax(Floats(Size(blocks)), DType::kFloat32);
  coxswain_adamw_8bit_tensor tensor{};
  tensor.tensor.p = p.c.data();
  tensor.tensor.g = g.data();
  tensor.tensor.n = n;
  tensor.tensor.lr_scale = 1.0;
  tensor.tensor.weight_decay = 0.1;
  tensor.tensor.p_dtype = COXSWAIN_BFLOAT16;
  tensor.tensor.index = 3;
  tensor.m_codes = m.c.data();
  tensor.v_codes = v.c.data();
  tensor.m_absmax = m_absmax.c.floats();
  tensor.v_absmax = v_absmax.c.floats();
  AdamW8bitTensor twin{.tensor = {.p = p.op.data(),
                                  .g = g.data(),
                                  .n = n,
                                  .weight_decay = 0.1,
                                  .p_dtype = kType,
                                  .index = 3},
                       .m_codes = m.op.data(),
                       .v_codes = v.op.data(),
                       .m_absmax = m_absmax.op.floats(),
                       .v_absmax = v_absmax.op.floats()};
  const DeviceValues<coxswain_adamw_8bit_tensor> tensors({tensor});
  const DeviceValues<AdamW8bitTensor> twins({twin});
  coxswain_optimizer_scalars first{};
  first.lr = 0.01;
  first.beta1 = 0.9;
  first.beta2 = 0.99;
  first.eps = 1e-8;
  first.clip_factor = 1.0;
  const DeviceValues<coxswain_optimizer_scalars> scalars({first});
  const DeviceValues<OptimizerScalars> twin_scalars({{.lr = 0.01, .beta2 = 0.99}});
  coxswain_adamw_8bit_args args{};
  args.tensors = tensors.data();
  args.count = 1;
  args.chunks = 2;
  args.scalars = scalars.data();
  args.key[0] = 11;
  args.key[1] = 22;
  args.step = step.data();
  for (int update = 1; update <= 2; ++update) {
    EXPECT_OK(coxswain_adamw_8bit(&args, nullptr));
    AdamW8bit({.tensors = twins.data(),
               .count = 1,
               .chunks = 2,
               .scalars = twin_scalars.data(),
               .draws = {.key = {11, 22}, .step = step.data()}},
              TestStream());
    for (const Twins* t : {&p, &m_absmax, &v_absmax}) t->ExpectSame("parameters and scales");
    for (const ValueTwins<uint8_t>* t : {&m, &v}) t->ExpectSame("codes");
    EXPECT_EQ(scalars.Read()[0].applied_updates, update);
  }
  args.more_follow = 1;
  EXPECT_OK(coxswain_adamw_8bit(&args, nullptr));
  Synchronize(nullptr);
  EXPECT_EQ(scalars.Read()[0].applied_updates, 2) << "the update goes on";
  args.chunks = -1;
  EXPECT_REFUSED(coxswain_adamw_8bit(&args, nullptr), "AdamW8bit: chunks is -1");
}

}  // namespace
}  // namespace gpu_c_api_quantized_test
}  // namespace coxswain::kernels
