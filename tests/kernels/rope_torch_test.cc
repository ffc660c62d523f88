// The host tables against what transformers computes: the same float32 operations in libtorch.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>

#include "kernels/rope.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace {

void ExpectNear(const at::Tensor& want, const Floats& got, float bound) {
  const at::Tensor flat = want.contiguous();
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(got.size()));
  for (int64_t i = 0; i < flat.numel(); ++i) {
    ASSERT_NEAR(flat.data_ptr<float>()[i], got[Size(i)], bound);
  }
}

// Ours are rounded once from double. libtorch's vectorised functions may be one unit off that; a
// table computed in another precision or order would be off by the position times a unit.
TEST(RopeTorchTest, TablesEqualTransformersWithinOneUnit) {
  const float unit = static_cast<float>(2 * kUnit);
  for (const int64_t dim : {16, 64, 128}) {
    for (const double theta : {10000.0, 500000.0, 1000000.0}) {
      const at::Tensor exponent =
          at::arange(0, dim, 2).to(at::kFloat).div(static_cast<double>(dim));
      const at::Tensor inverse = at::pow(theta, exponent).reciprocal();
      const Floats got = RopeInverseFrequencies({.head_dim = dim, .theta = theta});
      ExpectNear(inverse, got, unit);
      const int64_t positions = 2000;
      const at::Tensor angle =
          at::outer(at::arange(positions).to(at::kFloat),
                    at::from_blob(const_cast<float*>(got.data()), {dim / 2}, at::kFloat));
      const RopeTable table = BuildRopeTable({.head_dim = dim, .theta = theta}, positions);
      ExpectNear(at::cos(angle), table.cos, unit);
      ExpectNear(at::sin(angle), table.sin, unit);
    }
  }
}

}  // namespace
}  // namespace coxswain::kernels
