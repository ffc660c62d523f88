// Two reads of a row that have no exit and vectorise: its maximum, which a NaN makes NaN, then the
// number of columns before the first that reaches it.
#include "kernels/loss/argmax.h"

#include <limits>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE float RowMaximum(const float* z, int64_t n) {
  float lanes[cpu::kLanes];
  for (float& lane : lanes) lane = z[0];
  // A comparison with NaN is false: it enters where it stands on the right, and stays.
  int64_t i = 0;
  for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) {
      lanes[j] = lanes[j] >= z[i + j] || lanes[j] != lanes[j] ? lanes[j] : z[i + j];
    }
  }
  for (; i < n; ++i) lanes[0] = lanes[0] >= z[i] || lanes[0] != lanes[0] ? lanes[0] : z[i];
  float maximum = lanes[0];
  for (float lane : lanes) maximum = maximum >= lane || maximum != maximum ? maximum : lane;
  return maximum;
}

int32_t FirstMaximum(const float* z, int64_t n) {
  const float maximum = RowMaximum(z, n);
  if (maximum != maximum) return -1;
  int64_t column = 0;
  while (z[column] < maximum) ++column;
  return static_cast<int32_t>(column);
}

}  // namespace

bool ArgmaxSupports(const ArgmaxSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.columns > 0 &&
         spec.columns < std::numeric_limits<int32_t>::max();
}

void Argmax(const ArgmaxArgs& args, Stream* stream) {
  cpu::RequireSupported(ArgmaxSupports(args.spec), "Argmax");
  const auto* values = static_cast<const float*>(args.values);
  const int64_t ld = cpu::RowStride(args.ld, args.spec.columns, "Argmax");
  cpu::ParallelFor(args.rows, args.spec.columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      args.columns[row] = FirstMaximum(values + row * ld, args.spec.columns);
    }
  });
}

}  // namespace coxswain::kernels
