// The amax that norms, gates and activations find of what they store: that of the stored elements,
// whose bits are those without it. Both libraries: this file is of kernels_test and of gpu_tests.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/activations/gates.h"
#include "kernels/norms/norms.h"
#include "tests/kernels/quantized_memory.h"

namespace coxswain::kernels {
namespace stored_amax_test {
namespace {

using Bytes = std::vector<uint8_t>;
using Values = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Elements in `dtype`; bfloat16 drops the lower half.
Bytes Encoded(const Values& values, DType dtype) {
  const auto size = static_cast<size_t>(DTypeBytes(dtype));
  Bytes bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* const from = reinterpret_cast<const uint8_t*>(&values[i]);
    std::memcpy(bytes.data() + i * size, from + (sizeof(float) - size), size);
  }
  return bytes;
}

uint32_t LargestBits(const Bytes& bytes, DType dtype) {
  const auto size = static_cast<size_t>(DTypeBytes(dtype));
  uint32_t largest = 0;
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<uint8_t*>(&bits) + (sizeof(bits) - size), &bytes[at], size);
    largest = std::max(largest, bits & 0x7fffffffu);
  }
  return largest;
}

// What an op reads, `special` in the middle of it.
struct Inputs {
  Inputs(DType dtype, int64_t rows, int64_t columns, float special)
      : dtype(dtype), rows(rows), columns(columns), special(special) {}

  Bytes Make(int64_t elements, unsigned seed, bool with_special = false) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 2.0f);
    Values values(static_cast<size_t>(elements));
    for (float& value : values) value = normal(random);
    if (with_special && special != 0) values[values.size() / 2] = special;
    return Encoded(values, dtype);
  }

  DType dtype;
  int64_t rows, columns;
  float special;
};

// Runs an op with a slot or without one, and returns what it stored.
using Run = std::function<Bytes(const Inputs& in, float* amax)>;

template <typename Args, typename Spec, typename Fn>
Bytes GateForward(const Spec& spec, const Inputs& in, float* amax, const Fn& fn) {
  const OnDevice<uint8_t> gate_up(in.Make(in.rows * 2 * in.columns, 1, true));
  const OnDevice<uint8_t> y(in.rows * in.columns * DTypeBytes(in.dtype));
  Args args;
  args.spec = spec;
  args.rows = in.rows;
  args.gate_up = gate_up.data();
  args.y = y.data();
  args.amax = amax;
  fn(args, nullptr);
  Synchronize(nullptr);
  return y.Read();
}

template <typename Args, typename Spec, typename Fn>
Bytes GateBackward(const Spec& spec, const Inputs& in, float* amax, const Fn& fn) {
  const OnDevice<uint8_t> gate_up(in.Make(in.rows * 2 * in.columns, 1));
  const OnDevice<uint8_t> dy(in.Make(in.rows * in.columns, 2, true));
  Args args;
  args.spec = spec;
  args.rows = in.rows;
  args.dy = dy.data();
  args.gate_up = gate_up.data();
  args.amax = amax;
  fn(args, nullptr);
  Synchronize(nullptr);
  return gate_up.Read();
}

Bytes GeluOut(bool tanh, bool backward, const Inputs& in, float* amax) {
  const GeluSpec spec{.dtype = in.dtype, .columns = in.columns, .tanh = tanh};
  const OnDevice<uint8_t> x(in.Make(in.rows * in.columns, 1, true));
  const OnDevice<uint8_t> out(in.Make(in.rows * in.columns, 2));  // or dy
  if (backward) {
    GeluBackward({.spec = spec, .rows = in.rows, .dy = out.data(), .x = x.data(), .amax = amax},
                 nullptr);
  } else {
    GeluForward({.spec = spec, .rows = in.rows, .x = x.data(), .y = out.data(), .amax = amax},
                nullptr);
  }
  Synchronize(nullptr);
  return backward ? x.Read() : out.Read();
}

enum class NormKind { kRms, kAddRms, kLayer };

Bytes NormForward(NormKind kind, const Inputs& in, float* amax) {
  const int64_t count = in.rows * in.columns;
  const OnDevice<uint8_t> x(in.Make(count, 1, true)), residual(in.Make(count, 2)),
      weight(in.Make(in.columns, 3)), y(count * DTypeBytes(in.dtype)),
      sum(count * DTypeBytes(in.dtype));
  const OnDevice<float> mean(in.rows), rstd(in.rows);
  const RmsNormSpec rms{.dtype = in.dtype, .hidden = in.columns};
  if (kind == NormKind::kRms) {
    RmsNormForward({.spec = rms,
                    .rows = in.rows,
                    .x = x.data(),
                    .weight = weight.data(),
                    .y = y.data(),
                    .rstd = rstd.data(),
                    .amax = amax},
                   nullptr);
  } else if (kind == NormKind::kAddRms) {
    AddRmsNormForward({.spec = rms,
                       .rows = in.rows,
                       .x = x.data(),
                       .residual = residual.data(),
                       .weight = weight.data(),
                       .sum = sum.data(),
                       .y = y.data(),
                       .rstd = rstd.data(),
                       .amax = amax},
                      nullptr);
  } else {
    LayerNormForward({.spec = {.dtype = in.dtype, .hidden = in.columns},
                      .rows = in.rows,
                      .x = x.data(),
                      .weight = weight.data(),
                      .bias = residual.data(),
                      .y = y.data(),
                      .mean = mean.data(),
                      .rstd = rstd.data(),
                      .amax = amax},
                     nullptr);
  }
  Synchronize(nullptr);
  return y.Read();
}

// `trained`: the gradient of the weight too.
Bytes NormBackward(NormKind kind, bool accumulate, bool trained, const Inputs& in, float* amax) {
  const int64_t count = in.rows * in.columns;
  const OnDevice<uint8_t> dy(in.Make(count, 1, true)), x(in.Make(count, 2)),
      weight(in.Make(in.columns, 3)), dx(in.Make(count, 4));
  const OnDevice<float> mean(Values(static_cast<size_t>(in.rows), 0.1f));
  const OnDevice<float> rstd(Values(static_cast<size_t>(in.rows), 0.5f));
  const OnDevice<float> dweight(Values(static_cast<size_t>(in.columns), 0.0f));
  const RmsNormSpec rms{.dtype = in.dtype, .hidden = in.columns};
  const LayerNormSpec layer{.dtype = in.dtype, .hidden = in.columns};
  const int64_t bytes = std::max(RmsNormBackwardWorkspaceBytes(rms, in.rows),
                                 LayerNormBackwardWorkspaceBytes(layer, in.rows));
  const OnDevice<uint8_t> workspace(bytes);
  if (kind == NormKind::kRms) {
    RmsNormBackward({.spec = rms,
                     .rows = in.rows,
                     .dy = dy.data(),
                     .x = x.data(),
                     .weight = weight.data(),
                     .rstd = rstd.data(),
                     .accumulate_dx = accumulate,
                     .dx = dx.data(),
                     .dweight = trained ? dweight.data() : nullptr,
                     .amax = amax,
                     .workspace = {workspace.data(), bytes}},
                    nullptr);
  } else {
    LayerNormBackward({.spec = layer,
                       .rows = in.rows,
                       .dy = dy.data(),
                       .x = x.data(),
                       .weight = weight.data(),
                       .mean = mean.data(),
                       .rstd = rstd.data(),
                       .accumulate_dx = accumulate,
                       .dx = dx.data(),
                       .dweight = trained ? dweight.data() : nullptr,
                       .amax = amax,
                       .workspace = {workspace.data(), bytes}},
                      nullptr);
  }
  Synchronize(nullptr);
  return dx.Read();
}

float Raised(const Run& run, const Inputs& in, float from) {
  const OnDevice<float> slot(Values{from});
  run(in, slot.data());
  return slot.Read()[0];
}

void Check(const Run& run, const Inputs& in) {
  const Bytes without = run(in, nullptr);
  const OnDevice<float> slot(Values{0.0f});
  EXPECT_EQ(run(in, slot.data()), without);
  const uint32_t largest = LargestBits(without, in.dtype);
  EXPECT_EQ(std::bit_cast<uint32_t>(slot.Read()[0]), largest) << slot.Read()[0];
  EXPECT_GT(largest, 0u);
  // What is there is raised, never lowered.
  const uint32_t above = std::min(largest + 1, 0x7fffffffu);
  EXPECT_EQ(std::bit_cast<uint32_t>(Raised(run, in, std::bit_cast<float>(above))), above);
  EXPECT_EQ(std::bit_cast<uint32_t>(Raised(run, in, std::bit_cast<float>(largest - 1))), largest);
}

struct Shape {
  int64_t rows, columns;
};
// Rows that a warp or a block holds, that are walked, and that are not read 16 bytes at a time.
constexpr Shape kShapes[] = {{1, 1},    {129, 33}, {7, 64},   {1111, 64},
                             {33, 256}, {5, 1030}, {9, 3584}, {2, 20000}};

void CheckEveryShape(const Run& run) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    if (!RmsNormSupports({.dtype = dtype, .hidden = 8})) continue;
    for (const Shape& shape : kShapes) {
      for (const float special : {0.0f, 3e4f, -kInfinity, kNan}) {
        SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << ", " << special
                                        << ", " << DTypeBytes(dtype) << " bytes");
        Check(run, {dtype, shape.rows, shape.columns, special});
      }
    }
  }
}

TEST(StoredAmaxTest, OfTheGatedProduct) {
  CheckEveryShape([](const Inputs& in, float* amax) {
    const SwigluSpec spec{.dtype = in.dtype, .intermediate = in.columns};
    return GateForward<SwigluForwardArgs>(spec, in, amax, SwigluForward);
  });
  for (const bool tanh : {false, true}) {
    CheckEveryShape([tanh](const Inputs& in, float* amax) {
      const GegluSpec spec{.dtype = in.dtype, .intermediate = in.columns, .tanh = tanh};
      return GateForward<GegluForwardArgs>(spec, in, amax, GegluForward);
    });
  }
  CheckEveryShape([](const Inputs& in, float* amax) {
    const ClampedSwigluSpec spec{
        .dtype = in.dtype, .intermediate = in.columns, .alpha = 1.7f, .limit = 7.0f};
    return GateForward<ClampedSwigluForwardArgs>(spec, in, amax, ClampedSwigluForward);
  });
}

TEST(StoredAmaxTest, OfTheGradientOfGateAndUp) {
  CheckEveryShape([](const Inputs& in, float* amax) {
    const SwigluSpec spec{.dtype = in.dtype, .intermediate = in.columns};
    return GateBackward<SwigluBackwardArgs>(spec, in, amax, SwigluBackward);
  });
  for (const bool tanh : {false, true}) {
    CheckEveryShape([tanh](const Inputs& in, float* amax) {
      const GegluSpec spec{.dtype = in.dtype, .intermediate = in.columns, .tanh = tanh};
      return GateBackward<GegluBackwardArgs>(spec, in, amax, GegluBackward);
    });
  }
  CheckEveryShape([](const Inputs& in, float* amax) {
    const ClampedSwigluSpec spec{
        .dtype = in.dtype, .intermediate = in.columns, .alpha = 1.7f, .limit = 7.0f};
    return GateBackward<ClampedSwigluBackwardArgs>(spec, in, amax, ClampedSwigluBackward);
  });
}

TEST(StoredAmaxTest, OfActivationsAndTheirGradients) {
  for (const bool tanh : {false, true}) {
    for (const bool backward : {false, true}) {
      CheckEveryShape(
          [=](const Inputs& in, float* amax) { return GeluOut(tanh, backward, in, amax); });
    }
  }
}

TEST(StoredAmaxTest, OfNorms) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kAddRms, NormKind::kLayer}) {
    CheckEveryShape([kind](const Inputs& in, float* amax) { return NormForward(kind, in, amax); });
  }
}

TEST(StoredAmaxTest, OfTheGradientsOfNorms) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const bool accumulate : {false, true}) {
      CheckEveryShape([=](const Inputs& in, float* amax) {
        return NormBackward(kind, accumulate, /*trained=*/accumulate, in, amax);
      });
    }
  }
}

}  // namespace
}  // namespace stored_amax_test
}  // namespace coxswain::kernels
