// The functions of kernels/c_api/tensors.h, and those of tokens.h that find maxima: the bits of the
// ops that they call.
#include "kernels/loss/cross_entropy.h"
#include "kernels/tensors/whole_tensors.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_tensors_test {
namespace {

constexpr DType kType = DType::kBFloat16;
constexpr int64_t kCount = 1003;

TEST(CApiTensorsGpuTest, AddWithAndWithoutAnAlpha) {
  const DeviceTensor x(kType, Normal(kCount, 1, kType));
  const Twins y(Normal(kCount, 2, DType::kFloat32), DType::kFloat32);
  coxswain_add_args args{};
  args.x_dtype = COXSWAIN_BFLOAT16;
  args.count = kCount;
  args.x = x.data();
  args.y = y.c.data();
  for (const float alpha : {0.0f, 0.75f}) {
    args.alpha = alpha;
    EXPECT_OK(coxswain_add(&args, nullptr));
    Add({.x_dtype = kType,
         .count = kCount,
         .alpha = alpha == 0.0f ? 1.0f : alpha,
         .x = x.data(),
         .y = y.op.data()},
        TestStream());
    y.ExpectSame("sum");
  }
  args.dtype = COXSWAIN_BFLOAT16;
  args.x_dtype = COXSWAIN_FLOAT32;
  EXPECT_REFUSED(coxswain_add(&args, nullptr), "Add: x of float32");
}

TEST(CApiTensorsGpuTest, Scale) {
  const Twins x(Normal(kCount, 1, kType), kType);
  const DeviceValues<float> factor({0.3f});
  coxswain_scale_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.count = kCount;
  args.factor = factor.data();
  args.x = x.c.data();
  EXPECT_OK(coxswain_scale(&args, nullptr));
  Scale({.dtype = kType, .count = kCount, .factor = factor.data(), .x = x.op.data()}, TestStream());
  x.ExpectSame("scaled values");
  args.count = -1;
  EXPECT_REFUSED(coxswain_scale(&args, nullptr), "Scale");
}

TEST(CApiTensorsGpuTest, Convert) {
  const DeviceTensor in(DType::kFloat32, Normal(kCount, 1, DType::kFloat32));
  const Twins out{Floats(Size(kCount))};
  coxswain_convert_args args{};
  args.from = COXSWAIN_FLOAT32;
  args.to = COXSWAIN_BFLOAT16;
  args.count = kCount;
  args.in = in.data();
  args.out = out.c.data();
  EXPECT_OK(coxswain_convert(&args, nullptr));
  Convert({.to = kType, .count = kCount, .in = in.data(), .out = out.op.data()}, TestStream());
  out.ExpectSame("rounded values");
  args.from = 7;
  EXPECT_REFUSED(coxswain_convert(&args, nullptr), "dtype is 7");
}

TEST(CApiTensorsGpuTest, RandomFillOfEachKind) {
  coxswain_random_fill_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.value = 0.5;
  args.key[0] = 11;
  args.key[1] = 12;
  args.counter[0] = 13;
  args.counter[1] = 14;
  args.first = 5;
  args.count = kCount;
  for (const auto& [kind, number] : {std::pair{RandomFillKind::kConstant, COXSWAIN_CONSTANT},
                                     {RandomFillKind::kUniform, COXSWAIN_UNIFORM},
                                     {RandomFillKind::kNormal, COXSWAIN_NORMAL}}) {
    const Twins out{Floats(Size(kCount))};
    args.kind = number;
    args.out = out.c.data();
    EXPECT_OK(coxswain_random_fill(&args, nullptr));
    RandomFill({.dtype = kType,
                .kind = kind,
                .value = 0.5,
                .key = {11, 12},
                .counter = {13, 14},
                .first = 5,
                .count = kCount,
                .out = out.op.data()},
               TestStream());
    out.ExpectSame("drawn values");
  }
  args.kind = 3;
  EXPECT_REFUSED(coxswain_random_fill(&args, nullptr), "kind is 3");
}

TEST(CApiTensorsGpuTest, ChecksumAndZeros) {
  const DeviceTensor values(kType, Normal(kCount, 1, kType));
  const ValueTwins<uint64_t> sum({5});
  coxswain_checksum_args checksum{};
  checksum.dtype = COXSWAIN_BFLOAT16;
  checksum.count = kCount;
  checksum.values = values.data();
  checksum.sum = sum.c.data();
  EXPECT_OK(coxswain_checksum(&checksum, nullptr));
  Checksum({.dtype = kType, .count = kCount, .values = values.data(), .sum = sum.op.data()},
           TestStream());
  sum.ExpectSame("checksum");
  EXPECT_NE(sum.c.Read()[0], 5u);
  const ValueTwins<int32_t> all_zero({1});
  coxswain_all_zero_args zero{};
  zero.dtype = COXSWAIN_BFLOAT16;
  zero.count = kCount;
  zero.values = values.data();
  zero.all_zero = all_zero.c.data();
  EXPECT_OK(coxswain_all_zero(&zero, nullptr));
  AllZero(
      {.dtype = kType, .count = kCount, .values = values.data(), .all_zero = all_zero.op.data()},
      TestStream());
  all_zero.ExpectSame("all zero");
  EXPECT_EQ(all_zero.c.Read()[0], 0);
  checksum.count = zero.count = -1;
  EXPECT_REFUSED(coxswain_checksum(&checksum, nullptr), "Checksum: count is -1");
  EXPECT_REFUSED(coxswain_all_zero(&zero, nullptr), "AllZero: count is -1");
}

TEST(CApiTensorsGpuTest, Sum) {
  const DeviceTensor values(DType::kFloat32, Normal(kCount, 1, DType::kFloat32));
  const ValueTwins<double> sum({3.0});
  coxswain_sum_args args{};
  args.count = kCount;
  args.values = values.floats();
  args.sum = sum.c.data();
  for (const bool accumulate : {true, false}) {
    args.accumulate = accumulate ? 1 : 0;
    EXPECT_OK(coxswain_sum(&args, nullptr));
    Sum({.count = kCount,
         .values = values.floats(),
         .sum = sum.op.data(),
         .accumulate = accumulate},
        TestStream());
    sum.ExpectSame("sum");
  }
  args.count = -1;
  EXPECT_REFUSED(coxswain_sum(&args, nullptr), "Sum: count is -1");
}

TEST(CApiTensorsGpuTest, MaximaOfRowsThatLieApart) {
  const int64_t rows = 5, width = 90, ld = 96;
  const DeviceTensor logits(kType, Normal(rows * ld, 1, kType));
  const ValueTwins<int32_t> columns(std::vector<int32_t>(5, -7));
  coxswain_argmax_args argmax{};
  argmax.dtype = COXSWAIN_BFLOAT16;
  argmax.rows = rows;
  argmax.width = width;
  argmax.ld = ld;
  argmax.values = logits.data();
  argmax.columns = columns.c.data();
  EXPECT_OK(coxswain_argmax(&argmax, nullptr));
  Argmax({.spec = {.dtype = kType, .columns = width},
          .rows = rows,
          .values = logits.data(),
          .ld = ld,
          .columns = columns.op.data()},
         TestStream());
  columns.ExpectSame("columns");
  const Twins hits(Floats(5, 7.0f), DType::kFloat32);
  coxswain_target_hits_args target_hits{};
  target_hits.dtype = COXSWAIN_BFLOAT16;
  target_hits.rows = rows;
  target_hits.vocab = width;
  target_hits.ld = ld;
  target_hits.logits = logits.data();
  target_hits.targets = columns.c.data();
  target_hits.hits = hits.c.floats();
  EXPECT_OK(coxswain_target_hits(&target_hits, nullptr));
  TargetHits({.spec = {.dtype = kType, .vocab = width},
              .rows = rows,
              .logits = logits.data(),
              .ld = ld,
              .targets = columns.op.data(),
              .hits = hits.op.floats()},
             TestStream());
  hits.ExpectSame("hits");
  EXPECT_EQ(hits.c.Read(), Floats(5, 1.0f));
  argmax.width = target_hits.vocab = ld + 1;
  EXPECT_REFUSED(coxswain_argmax(&argmax, nullptr), "96 elements between rows of 97");
  EXPECT_REFUSED(coxswain_target_hits(&target_hits, nullptr), "96 elements between rows of 97");
}

}  // namespace
}  // namespace gpu_c_api_tensors_test
}  // namespace coxswain::kernels
