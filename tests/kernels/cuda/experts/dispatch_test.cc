#include "kernels/experts/expert_rows.h"

#include <limits>
#include <stdexcept>

#include "tests/kernels/cuda/expert_pairs.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_dispatch_test {
namespace {

constexpr int64_t kWidths[] = {1, 2, 7, 8, 9, 24, 300, 896, 2048, 2880, 7168};

class DispatchGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  Floats Forward(const DispatchSpec& spec, const SortedPairs& pairs, const Floats& x) const {
    const auto count = static_cast<int64_t>(pairs.order.size());
    const DeviceValues<int32_t> order(pairs.order), places(pairs.places);
    const DeviceTensor device_x(dtype_, x), rows(dtype_, count * spec.hidden);
    DispatchForward({.spec = spec,
                     .tokens = count / spec.chosen,
                     .order = order.data(),
                     .places = places.data(),
                     .x = device_x.data(),
                     .rows = rows.data()},
                    TestStream());
    return rows.Read();
  }
  Floats Backward(const DispatchSpec& spec, const SortedPairs& pairs, const Floats& drows) const {
    const int64_t tokens = static_cast<int64_t>(pairs.order.size()) / spec.chosen;
    const DeviceValues<int32_t> places(pairs.places);
    const DeviceTensor device_drows(dtype_, drows), dx(dtype_, tokens * spec.hidden);
    DispatchBackward({.spec = spec,
                      .tokens = tokens,
                      .places = places.data(),
                      .drows = device_drows.data(),
                      .dx = dx.data()},
                     TestStream());
    return dx.Read();
  }
  void CheckRows(int64_t tokens, int64_t chosen, int64_t hidden, const Ints& ids) const;
};

// A copy, and float32 sums in the order of slots with one rounding to the type: exact.
void DispatchGpuTest::CheckRows(int64_t tokens, int64_t chosen, int64_t hidden,
                                const Ints& ids) const {
  const DispatchSpec spec{.dtype = dtype_, .hidden = hidden, .chosen = chosen};
  const SortedPairs pairs(7, ids);
  const Floats x = Normal(tokens * hidden, 1, dtype_);
  Floats drows = Normal(tokens * chosen * hidden, 2, dtype_), rows(drows.size(), 0.0f);
  Floats dx(x.size(), 0.0f);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t pair = pairs.order[i / Size(hidden)];
    if (pair >= 0) rows[i] = x[Size(pair / chosen * hidden) + i % Size(hidden)];
    if (pair < 0) drows[i] = std::numeric_limits<float>::quiet_NaN();  // not read
  }
  for (size_t i = 0; i < dx.size(); ++i) {
    const size_t t = i / Size(hidden);
    for (size_t s = 0; s < Size(chosen); ++s) {
      const int32_t place = pairs.places[t * Size(chosen) + s];
      if (place >= 0) dx[i] += drows[Size(place * hidden) + i % Size(hidden)];
    }
    dx[i] = Round(dx[i], dtype_);
  }
  const std::string what = std::to_string(chosen) + " rows of " + std::to_string(hidden);
  EXPECT_TRUE(SameBits(Forward(spec, pairs, x), rows)) << what;
  const Floats got = Backward(spec, pairs, drows);
  EXPECT_TRUE(SameBits(got, dx)) << what;
  EXPECT_TRUE(SameBits(Backward(spec, pairs, drows), got)) << what << ", again";
}

TEST_P(DispatchGpuTest, CopiesAndAddsRowsOfEveryWidth) {
  for (const int64_t hidden : kWidths) CheckRows(13, 8, hidden, ExpertIds(13 * 8, 7, 3, true));
}

// Around the rows that a thread holds at once.
TEST_P(DispatchGpuTest, AnyNumberOfSlots) {
  for (const int64_t chosen : {1, 2, 7, 9, 16, 17}) {
    for (const int64_t hidden : {5, 64}) {
      CheckRows(29, chosen, hidden, ExpertIds(29 * chosen, 7, 4, true));
      CheckRows(29, chosen, hidden, ExpertIds(29 * chosen, 7, 5, false));
    }
  }
}

TEST_P(DispatchGpuTest, OneExpertNoExpertAndNoTokens) {
  CheckRows(31, 4, 40, Ints(124, 6));
  CheckRows(31, 4, 40, Ints(124, -1));
  DispatchForward({.spec = {.dtype = dtype_, .hidden = 8, .chosen = 2}}, TestStream());
  DispatchBackward({.spec = {.dtype = dtype_, .hidden = 8, .chosen = 2}}, TestStream());
}

TEST_P(DispatchGpuTest, RefusesWhatPlacesDoNotCount) {
  EXPECT_FALSE(DispatchSupports({.dtype = dtype_, .hidden = 0, .chosen = 1}));
  DispatchForwardArgs args{.spec = {.dtype = dtype_, .hidden = 8, .chosen = 8}, .tokens = 1 << 28};
  EXPECT_THROW(DispatchForward(args, TestStream()), std::invalid_argument);
  args.tokens = -1;
  EXPECT_THROW(DispatchForward(args, TestStream()), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(DTypes, DispatchGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_dispatch_test
}  // namespace coxswain::kernels
