#include "kernels/cuda/tensors/ordered_sum.h"

#include <deque>

#include "kernels/cuda/stream.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_ordered_sum_test {
namespace {

class OrderedSumGpuTest : public testing::TestWithParam<DType> {};

// The sum of float32 from left to right and one rounding: the same bits.
TEST_P(OrderedSumGpuTest, AddsFromLeftToRightForEveryTail) {
  const DType dtype = GetParam();
  for (const int summands : {1, 2, 3, kMaxSummands}) {
    for (const int64_t n : {0, 1, 7, 8, 9, 127, 8191, 100003}) {
      std::deque<DeviceTensor> device;
      Floats want(static_cast<size_t>(n), 0.0f);
      OrderedSumArgs args{.dtype = dtype, .count = n, .summands = summands};
      for (int s = 0; s < summands; ++s) {
        const Floats x = Normal(n, static_cast<uint64_t>(s + 1), dtype);
        for (size_t i = 0; i < x.size(); ++i) want[i] = s == 0 ? x[i] : want[i] + x[i];
        device.emplace_back(dtype, x);
      }
      for (int s = 0; s < summands; ++s) args.in[s] = device[static_cast<size_t>(s)].data();
      args.out = device[0].data();  // in place
      OrderedSum(args, cuda::Handle(TestStream()));
      const Floats sum = device[0].Read();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(sum[i], want[i],
                    (dtype == DType::kFloat32 ? 0 : kUnit(dtype)) * std::abs(want[i]))
            << summands << " summands, element " << i << " of " << n;
      }
    }
  }
}

// Two bfloat16 values whose sum is none: the total has it in float32.
TEST_P(OrderedSumGpuTest, AddsTheUnroundedSumToATotalForEveryTail) {
  const DType dtype = GetParam();
  for (const int64_t n : {0, 1, 7, 8, 9, 127, 8191, 100003}) {
    const Floats x = Normal(n, 1, dtype), y = Normal(n, 2, dtype),
                 before = Normal(n, 3, DType::kFloat32);
    const DeviceTensor a(dtype, x), b(dtype, y);
    const DeviceTensor total(DType::kFloat32, before);
    OrderedSumArgs args{.dtype = dtype, .count = n, .summands = 2};
    args.in[0] = a.data();
    args.in[1] = b.data();
    args.total = static_cast<float*>(total.data());
    OrderedSum(args, cuda::Handle(TestStream()));
    const Floats got = total.Read();
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], before[i] + (x[i] + y[i])) << "element " << i << " of " << n;
    }
    EXPECT_EQ(a.Read(), x);
  }
}

TEST(OrderedSumArgsGpuTest, RefusesWhatItCannotAdd) {
  EXPECT_THROW(OrderedSum({.count = 4, .summands = kMaxSummands + 1}, nullptr),
               std::invalid_argument);
  EXPECT_THROW(OrderedSum({.count = 4, .summands = 0}, nullptr), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(DTypes, OrderedSumGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_ordered_sum_test
}  // namespace coxswain::kernels
