// Global norm, the decision to update, and AdamW in each of its storage forms.
#include <limits>
#include <memory>

#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/philox.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/adamw.h"

namespace coxswain::kernels {
namespace gpu_optimizer_test {
namespace {

constexpr double kFloatUnit = 0x1p-24;

struct Typed {
  DType dtype;
  Floats values;
  int64_t offset = 0;  // elements between the start of its memory and the tensor
};

// Sums over tensors [first, end) of the list and, behind, of each of these.
std::vector<NormSums> ComputeNorms(const std::vector<Typed>& tensors, size_t first = 0) {
  std::vector<NormTensor> list;
  std::vector<std::unique_ptr<DeviceTensor>> memory;
  int64_t chunks = 0, chunks_before = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Typed& t = tensors[i];
    Floats shifted(Size(t.offset), 1e30f);
    shifted.insert(shifted.end(), t.values.begin(), t.values.end());
    memory.push_back(std::make_unique<DeviceTensor>(t.dtype, shifted));
    const int64_t count = static_cast<int64_t>(t.values.size());
    if (i == first) chunks_before = chunks;
    list.push_back({static_cast<char*>(memory.back()->data()) + t.offset * DTypeBytes(t.dtype),
                    count, chunks, t.dtype});
    chunks += TensorChunks(count);
  }
  chunks -= chunks_before;
  const DeviceValues<NormTensor> device_list(list);
  const DeviceValues<NormSums> sums(
      std::vector<NormSums>(list.size() - first + 1, NormSums{-1.0, -1.0}));
  const Scratch scratch(GlobalNormWorkspaceBytes(chunks));
  GlobalNorm({.tensors = device_list.data() + first,
              .count = static_cast<int64_t>(list.size() - first),
              .chunks = chunks,
              .sums = sums.data(),
              .workspace = scratch.workspace()},
             TestStream());
  TensorNorms({.tensors = device_list.data() + first,
               .count = static_cast<int64_t>(list.size() - first),
               .chunk_sums = static_cast<const NormSums*>(scratch.workspace().data),
               .sums = sums.data() + 1},
              TestStream());
  return sums.Read();
}

NormSums ComputeNorm(const std::vector<Typed>& tensors, size_t first = 0) {
  return ComputeNorms(tensors, first)[0];
}

std::vector<Typed> MixedTensors() {
  std::vector<Typed> tensors;
  unsigned seed = 0;
  for (const int64_t n : {1, 7, 0, 16384, 16385, 50001, 0, 9}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      tensors.push_back({dtype, Normal(n, ++seed, dtype), n % 3});
    }
  }
  return tensors;
}

TEST(GlobalNormGpuTest, AddsSquaresOfAllTensorsInDouble) {
  const std::vector<Typed> tensors = MixedTensors();
  for (const size_t first : {size_t{0}, size_t{3}, tensors.size() - 1}) {
    double want = 0;
    for (size_t i = first; i < tensors.size(); ++i) {
      for (float g : tensors[i].values) want += static_cast<double>(g) * g;
    }
    const NormSums sums = ComputeNorm(tensors, first);
    EXPECT_NEAR(sums.sum_squares / want, 1.0, 200000 * 0x1p-53) << "from tensor " << first;
    EXPECT_EQ(sums.nonfinite, 0.0);
    EXPECT_EQ(ComputeNorm(tensors, first).sum_squares, sums.sum_squares);
  }
}

TEST(TensorNormsGpuTest, AreThoseOfEachTensor) {
  std::vector<Typed> tensors = MixedTensors();
  tensors.push_back({DType::kBFloat16, Normal(5000000, 99, DType::kBFloat16), 0});
  tensors[8].values[16384] = std::numeric_limits<float>::infinity();
  for (const size_t first : {size_t{0}, size_t{5}}) {
    const std::vector<NormSums> sums = ComputeNorms(tensors, first);
    for (size_t i = first; i < tensors.size(); ++i) {
      const NormSums& own = sums[i - first + 1];
      EXPECT_EQ(own.nonfinite, i == 8 ? 1.0 : 0.0) << i;
      if (i == 8) continue;
      double want = 0;
      for (float g : tensors[i].values) want += static_cast<double>(g) * g;
      EXPECT_NEAR(own.sum_squares, want, 5000000 * 0x1p-53 * want) << i;
    }
  }
}

// More tensors than a warp looks at in one round, and than it looks at in two.
TEST(GlobalNormGpuTest, FindsTheTensorOfEveryChunk) {
  for (const size_t count : {31, 32, 33, 337, 1025}) {
    std::vector<NormTensor> list;
    Floats values(count * 4);
    double want = 0;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 4096);
    const DeviceTensor memory(DType::kFloat32, values);
    for (size_t i = 0; i < count; ++i) {
      list.push_back({memory.floats() + 4 * i, 1, static_cast<int64_t>(i), DType::kFloat32});
      want += static_cast<double>(values[4 * i]) * values[4 * i];
    }
    const DeviceValues<NormTensor> device_list(list);
    const DeviceValues<NormSums> sums({NormSums{}});
    const int64_t chunks = static_cast<int64_t>(count);
    const Scratch scratch(GlobalNormWorkspaceBytes(chunks));
    GlobalNorm({.tensors = device_list.data(),
                .count = chunks,
                .chunks = chunks,
                .sums = sums.data(),
                .workspace = scratch.workspace()},
               TestStream());
    EXPECT_EQ(sums.Read()[0].sum_squares, want) << "integers below 2^53 add exactly";
  }
}

TEST(GlobalNormGpuTest, EmptyListIsZero) {
  EXPECT_EQ(ComputeNorm({{DType::kFloat32, {}}}).sum_squares, 0.0);
}

TEST(GlobalNormGpuTest, CountsEveryNonFiniteElement) {
  std::vector<Typed> tensors = {{DType::kFloat32, Normal(40000, 1, DType::kFloat32)},
                                {DType::kBFloat16, Normal(3, 2, DType::kBFloat16)}};
  tensors[0].values[5] = std::numeric_limits<float>::infinity();
  tensors[0].values[39999] = std::numeric_limits<float>::quiet_NaN();
  tensors[1].values[0] = -std::numeric_limits<float>::infinity();
  const NormSums sums = ComputeNorm(tensors);
  EXPECT_EQ(sums.nonfinite, 3.0);
  EXPECT_FALSE(std::isfinite(sums.sum_squares));
  const NormSums large =
      ComputeNorm({{DType::kFloat32, Floats(100, std::numeric_limits<float>::max())}});
  EXPECT_TRUE(std::isfinite(large.sum_squares));
  EXPECT_EQ(large.nonfinite, 0.0);
}

TEST(DecideUpdateGpuTest, ClipsSkipsOrPasses) {
  const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{}});
  const DeviceValues<double> norm({0.0});
  const auto decide = [&](double sum_squares, double max_norm) {
    const DeviceValues<NormSums> sums({NormSums{sum_squares, 0.0}});
    DecideUpdate(
        {.sums = sums.data(), .max_norm = max_norm, .scalars = scalars.data(), .norm = norm.data()},
        TestStream());
    return scalars.Read()[0];
  };
  EXPECT_DOUBLE_EQ(decide(16.0, 1.0).clip_factor, 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(norm.Read()[0], 4.0);
  EXPECT_EQ(decide(16.0, 5.0).clip_factor, 1.0);
  EXPECT_EQ(decide(16.0, 0.0).clip_factor, 1.0);
  EXPECT_EQ(decide(16.0, 0.0).skip, 0);
  EXPECT_EQ(decide(std::numeric_limits<double>::quiet_NaN(), 1.0).skip, 1);
  EXPECT_EQ(decide(std::numeric_limits<double>::infinity(), 0.0).skip, 1);
}

// One tensor of a list on the device.
struct Parameter {
  Parameter(DType p_dtype, DType g_dtype, bool has_master, const Floats& initial, int64_t shift,
            DType state_dtype = DType::kFloat32)
      : offset(shift),
        count(static_cast<int64_t>(initial.size())),
        p(p_dtype, Shifted(initial)),
        m(state_dtype, Shifted(Floats(initial.size(), 0.0f))),
        v(state_dtype, Shifted(Floats(initial.size(), 0.0f))),
        g(g_dtype, Shifted(Floats(initial.size(), 0.0f))) {
    if (has_master) {
      master = std::make_unique<DeviceTensor>(DType::kFloat32, Shifted(initial));
    }
  }

  Floats Shifted(const Floats& values) const {
    Floats shifted(Size(offset), 77.0f);
    shifted.insert(shifted.end(), values.begin(), values.end());
    return shifted;
  }
  Floats Read(const DeviceTensor& tensor) const {
    const Floats all = tensor.Read();
    for (int64_t i = 0; i < offset; ++i) EXPECT_EQ(all[Size(i)], 77.0f) << "before the tensor";
    return Floats(all.begin() + offset, all.end());
  }
  void* At(const DeviceTensor& tensor) const {
    return static_cast<char*>(tensor.data()) + offset * DTypeBytes(tensor.dtype());
  }
  AdamWTensor Entry(int64_t first_chunk) const {
    AdamWTensor t;
    t.p = At(p);
    t.master = master == nullptr ? nullptr : static_cast<float*>(At(*master));
    t.g = At(g);
    t.m = At(m);
    t.v = At(v);
    t.n = count;
    t.first_chunk = first_chunk;
    t.p_dtype = p.dtype();
    t.g_dtype = g.dtype();
    return t;
  }

  int64_t offset, count;
  DeviceTensor p, m, v, g;
  std::unique_ptr<DeviceTensor> master;
};

void RunAdamW(std::vector<AdamWTensor> list, const DeviceValues<OptimizerScalars>& scalars,
              uint32_t step, DType state_dtype = DType::kFloat32) {
  int64_t chunks = 0;
  for (AdamWTensor& t : list) {
    t.first_chunk = chunks;
    chunks += TensorChunks(t.n);
  }
  const DeviceValues<AdamWTensor> device_list(list);
  const DeviceValues<uint32_t> device_step({step});
  AdamW({.tensors = device_list.data(),
         .count = static_cast<int64_t>(list.size()),
         .chunks = chunks,
         .scalars = scalars.data(),
         .state_dtype = state_dtype,
         .draws = {.key = {11, 22}, .state_key = {33, 44}, .step = device_step.data()}},
        TestStream());
  Synchronize(TestStream());
}

// Storage forms whose value is float32: p itself, or a master with p its rounded copy.
TEST(AdamWGpuTest, Follows20UpdatesInOneListOfMixedTensors) {
  const double lr_scale[2] = {1.0, 16.0}, decay[2] = {0.1, 0.0};
  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<std::vector<reference::AdamWElement<double>>> want;
  for (const int64_t n : {1, 7, 8, 103, 16384, 16385, 40001}) {
    for (const bool master : {false, true}) {
      const DType p_dtype = master ? DType::kBFloat16 : DType::kFloat32;
      const DType g_dtype = n % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
      const Floats initial = Normal(n, static_cast<unsigned>(n), p_dtype);
      parameters.push_back(
          std::make_unique<Parameter>(p_dtype, g_dtype, master, initial, n == 103 ? 3 : 0));
      want.emplace_back();
      for (float p : initial) want.back().push_back({p});
    }
  }
  const DeviceValues<OptimizerScalars> scalars(
      {OptimizerScalars{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .clip_factor = 0.5}});
  for (int update = 1; update <= 20; ++update) {
    std::vector<AdamWTensor> list;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Parameter& p = *parameters[i];
      const Floats g =
          Normal(p.count, static_cast<unsigned>(100 * update) + unsigned(i), p.g.dtype());
      p.g.Write(p.Shifted(g));
      list.push_back(p.Entry(0));
      list.back().lr_scale = lr_scale[i % 2];
      list.back().weight_decay = decay[i % 2];
      const reference::AdamWOptions<double> o{1e-3 * lr_scale[i % 2], 0.9, 0.98, 1e-8,
                                              decay[i % 2]};
      for (size_t e = 0; e < g.size(); ++e) {
        reference::AdamWUpdate<double>(o, 0.5 * g[e], update, &want[i][e]);
      }
    }
    RunAdamW(list, scalars, 1);
    ASSERT_EQ(scalars.Read()[0].applied_updates, update);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = *parameters[i];
    const Floats value = p.Read(p.master == nullptr ? p.p : *p.master), copy = p.Read(p.p);
    const Floats m = p.Read(p.m), v = p.Read(p.v);
    for (size_t e = 0; e < value.size(); ++e) {
      // Each update rounds p once (|p| < 6) and the step, below 8 lr, within 20 u of itself.
      const double bound = 20 * (6 + 8e-3 * lr_scale[i % 2] * 80) * kFloatUnit;
      ASSERT_NEAR(value[e], want[i][e].p, bound) << "element " << e << " of " << value.size();
      ASSERT_NEAR(m[e], want[i][e].m, 100 * kFloatUnit);
      ASSERT_NEAR(v[e], want[i][e].v, 100 * kFloatUnit);
      ASSERT_EQ(copy[e], Round(value[e], p.p.dtype()));
    }
  }
}

TEST(AdamWGpuTest, DecayAloneMovesByLrTimesDecay) {
  const Parameter p(DType::kFloat32, DType::kFloat32, false, Floats(1, 1.0f), 0);
  AdamWTensor t = p.Entry(0);
  t.weight_decay = 0.01;
  const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{.lr = 1e-3}});
  for (int i = 0; i < 200; ++i) RunAdamW({t}, scalars, 1);
  EXPECT_NEAR(p.Read(p.p)[0], std::exp(-0.002), 200 * kFloatUnit);
}

// Invariant kernels-8.
TEST(AdamWGpuTest, SkipLeavesEverything) {
  for (const bool master : {false, true}) {
    const Floats initial = Normal(20000, 1, DType::kBFloat16);
    Parameter p(DType::kBFloat16, DType::kBFloat16, master, initial, 0);
    p.g.Write(Floats(initial.size(), std::numeric_limits<float>::quiet_NaN()));
    const DeviceValues<OptimizerScalars> scalars(
        {OptimizerScalars{.lr = 1e-3, .applied_updates = 7, .skip = 1}});
    RunAdamW({p.Entry(0)}, scalars, 1);
    EXPECT_TRUE(SameBits(p.Read(p.p), initial));
    EXPECT_TRUE(SameBits(p.Read(p.m), Floats(initial.size(), 0.0f)));
    EXPECT_EQ(scalars.Read()[0].applied_updates, 7);
  }
}

// p after one update of `initial` by gradients `g` at this step.
Floats OneUpdate(DType p_dtype, const Floats& initial, const Floats& g, uint32_t step,
                 uint32_t index, int64_t offset = 0, int64_t begin = 0) {
  Parameter p(p_dtype, DType::kFloat32, false, initial, offset);
  p.g.Write(p.Shifted(g));
  Parameter other(DType::kFloat32, DType::kFloat32, false, Floats(20000, 1.0f), 0);
  const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{.lr = 1e-3}});
  AdamWTensor t = p.Entry(0);
  t.index = index;
  t.begin = begin;
  t.weight_decay = 0.1;
  // Behind another tensor when it is also shifted: neither may matter.
  RunAdamW(offset == 0 ? std::vector{t} : std::vector{other.Entry(0), t}, scalars, step);
  return p.Read(p.p);
}

TEST(AdamWGpuTest, StochasticRoundingIsTheStatedFunction) {
  const Floats initial = Normal(33001, 1, DType::kBFloat16), g = Normal(33001, 2, DType::kFloat32);
  const Floats exact = OneUpdate(DType::kFloat32, initial, g, 5, 9);
  const Floats rounded = OneUpdate(DType::kBFloat16, initial, g, 5, 9);
  for (size_t e = 0; e < exact.size(); ++e) {
    const PhiloxWords words = Philox({{static_cast<uint32_t>(e / 8), 0, 9, 5}}, 11, 22);
    const uint32_t r = (words.word[e % 8 / 2] >> (16 * (e % 2))) & 0xffffu;
    const uint32_t bits = (std::bit_cast<uint32_t>(exact[e]) + r) & 0xffff0000u;
    ASSERT_EQ(rounded[e], std::bit_cast<float>(bits)) << e;
  }
  EXPECT_TRUE(SameBits(OneUpdate(DType::kBFloat16, initial, g, 5, 9, 3), rounded))
      << "neither the place in the list nor the alignment enters";
  EXPECT_FALSE(SameBits(OneUpdate(DType::kBFloat16, initial, g, 6, 9), rounded));
  EXPECT_FALSE(SameBits(OneUpdate(DType::kBFloat16, initial, g, 5, 10), rounded));
}

// Ranks that own a piece each round as one that owns all.
TEST(AdamWGpuTest, PiecesRoundAsTheWhole) {
  const Floats initial = Normal(33001, 1, DType::kBFloat16), g = Normal(33001, 2, DType::kFloat32);
  const Floats whole = OneUpdate(DType::kBFloat16, initial, g, 5, 9);
  int64_t begin = 0;
  for (const int64_t end : {64, 67, 16390, 33001}) {
    const Floats piece =
        OneUpdate(DType::kBFloat16, Floats(initial.begin() + begin, initial.begin() + end),
                  Floats(g.begin() + begin, g.begin() + end), 5, 9, 0, begin);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + begin)) << begin;
    begin = end;
  }
}

// Means over elements and steps within 4 sigma. The first update moves by lr sign(g) from 0.75,
// 2^-8 (1/512 of it) being the distance of its neighbours: lr is 0.256 of that.
TEST(AdamWGpuTest, StochasticRoundingIsUnbiased) {
  const size_t n = 100000;
  const double spacing = 0x1p-8;
  for (const float sign : {1.0f, -1.0f}) {
    double sum = 0, want = 0;
    for (uint32_t step = 1; step <= 5; ++step) {
      const Floats g(n, sign), start(n, 0.75f);
      for (float p : OneUpdate(DType::kBFloat16, start, g, step, 3)) sum += p;
      want += static_cast<double>(n) * OneUpdate(DType::kFloat32, start, g, step, 3)[0];
    }
    const double moved = std::abs(want / (5.0 * static_cast<double>(n)) - 0.75) / spacing;
    const double sigma = spacing * std::sqrt(moved * (1 - moved) * 5.0 * static_cast<double>(n));
    EXPECT_NEAR(sum, want, 4 * sigma);
  }
}

// Of elements [begin, begin + n) after one update of parameter 9 at step 5, from states of ones.
struct Updated {
  Floats p, m, v;
};
Updated OneUpdateOfStates(const Floats& initial, const Floats& g, bool master, DType state_dtype,
                          int64_t offset = 0, int64_t begin = 0) {
  const DType p_dtype = master ? DType::kBFloat16 : DType::kFloat32;
  Parameter p(p_dtype, DType::kFloat32, master, initial, offset, state_dtype);
  p.g.Write(p.Shifted(g));
  const Floats ones(initial.size(), 1.0f);
  p.m.Write(p.Shifted(ones));
  p.v.Write(p.Shifted(ones));
  AdamWTensor t = p.Entry(0);
  t.index = 9;
  t.begin = begin;
  const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{.lr = 1e-3}});
  RunAdamW({t}, scalars, 5, state_dtype);
  return {p.Read(master ? *p.master : p.p), p.Read(p.m), p.Read(p.v)};
}

TEST(AdamWGpuTest, StatesInBfloat16AreRoundedAsStatedAfterTheUpdate) {
  const Floats initial = Normal(33001, 1, DType::kBFloat16), g = Normal(33001, 2, DType::kFloat32);
  for (const bool master : {false, true}) {
    const Updated exact = OneUpdateOfStates(initial, g, master, DType::kFloat32);
    const Updated rounded = OneUpdateOfStates(initial, g, master, DType::kBFloat16);
    for (size_t e = 0; e < g.size(); ++e) {
      // Computed before rounding: root, quotient and three products are all that differ.
      const double step = std::abs(exact.p[e] - initial[e]);
      ASSERT_NEAR(rounded.p[e], exact.p[e], 0x1p-24 * (16 * step + 2 * std::abs(exact.p[e]))) << e;
      const PhiloxWords words = Philox({{static_cast<uint32_t>(e / 4), 0, 9, 5}}, 33, 44);
      const uint32_t r = words.word[e % 4];
      const auto want = [](float x, uint32_t random) {
        return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + random) & 0xffff0000u);
      };
      ASSERT_EQ(rounded.m[e], want(exact.m[e], r & 0xffffu)) << e;
      ASSERT_EQ(rounded.v[e], want(exact.v[e], r >> 16)) << e;
    }
    const Updated shifted = OneUpdateOfStates(initial, g, master, DType::kBFloat16, 3);
    EXPECT_TRUE(SameBits(shifted.m, rounded.m) && SameBits(shifted.v, rounded.v));
  }
}

TEST(AdamWGpuTest, PiecesRoundTheirStatesAsTheWhole) {
  const Floats initial = Normal(33001, 1, DType::kBFloat16), g = Normal(33001, 2, DType::kFloat32);
  const Updated whole = OneUpdateOfStates(initial, g, true, DType::kBFloat16);
  int64_t begin = 0;
  for (const int64_t end : {64, 67, 16390, 33001}) {
    const auto part = [&](const Floats& all) {
      return Floats(all.begin() + begin, all.begin() + end);
    };
    const Updated piece =
        OneUpdateOfStates(part(initial), part(g), true, DType::kBFloat16, 0, begin);
    EXPECT_TRUE(SameBits(piece.m, part(whole.m)) && SameBits(piece.v, part(whole.v))) << begin;
    begin = end;
  }
}

TEST(AdamWGpuTest, NanStaysNanWhenRoundedStochastically) {
  const Floats nan(1000, std::numeric_limits<float>::quiet_NaN());
  for (float p : OneUpdate(DType::kBFloat16, nan, Floats(1000, 1.0f), 1, 1)) {
    ASSERT_TRUE(std::isnan(p));
  }
  for (float p : OneUpdate(DType::kBFloat16, Floats(1000, 1.0f), nan, 1, 1)) {
    ASSERT_TRUE(std::isnan(p));
  }
}

TEST(AdamWGpuTest, SupportsAMasterOnlyBesideBFloat16) {
  EXPECT_TRUE(AdamWSupports(DType::kBFloat16, DType::kBFloat16, true));
  EXPECT_TRUE(AdamWSupports(DType::kBFloat16, DType::kFloat32, false));
  EXPECT_FALSE(AdamWSupports(DType::kFloat32, DType::kFloat32, true));
}

}  // namespace
}  // namespace gpu_optimizer_test
}  // namespace coxswain::kernels
