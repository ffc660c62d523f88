#include "kernels/optimizer/adamw_8bit.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "common/files/safetensors/safetensors.h"
#include "kernels/optimizer/dynamic_map.h"
#include "tests/kernels/adamw_8bit_check.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace adamw_8bit_test {
namespace {

using Codes = std::vector<uint8_t>;
using Reference = reference::AdamW8bitState<double>;

// A tensor in blocks, its states zero at first.
struct Blocks {
  explicit Blocks(Floats initial)
      : p(std::move(initial)),
        g(p.size()),
        m(p.size()),
        v(p.size()),
        m_absmax(Size(StateBlocks(count()))),
        v_absmax(m_absmax.size()) {}

  int64_t count() const { return static_cast<int64_t>(p.size()); }
  // Elements [begin, end), block bounds but for the tensor's end.
  AdamW8bitTensor Piece(int64_t begin, int64_t end) {
    AdamW8bitTensor t;
    t.tensor.p = p.data() + begin;
    t.tensor.g = g.data() + begin;
    t.tensor.n = end - begin;
    t.tensor.begin = begin;
    t.m_codes = m.data() + begin;
    t.v_codes = v.data() + begin;
    t.m_absmax = m_absmax.data() + begin / kStateBlock;
    t.v_absmax = v_absmax.data() + begin / kStateBlock;
    return t;
  }
  AdamW8bitTensor Whole() { return Piece(0, count()); }
  Reference Copy() const { return {Double(p), {m, Double(m_absmax)}, {v, Double(v_absmax)}}; }
  bool operator==(const Blocks& other) const {
    return SameBits(p, other.p) && m == other.m && v == other.v &&
           SameBits(m_absmax, other.m_absmax) && SameBits(v_absmax, other.v_absmax);
  }

  Floats p, g;
  Codes m, v;
  Floats m_absmax, v_absmax;
};

void Update(std::vector<AdamW8bitTensor> list, OptimizerScalars* scalars) {
  int64_t chunks = 0;
  for (AdamW8bitTensor& t : list) {
    t.tensor.first_chunk = chunks;
    chunks += TensorChunks(t.tensor.n);
  }
  AdamW8bit({.tensors = list.data(),
             .count = static_cast<int64_t>(list.size()),
             .chunks = chunks,
             .scalars = scalars},
            nullptr);
}

// What tests/fixtures/optimizer/make_adamw_8bit.py counts out.
Floats Draw(int64_t count, uint32_t stream) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + stream * 2246822519u + 1;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    const double value = static_cast<double>(x >> 8) * 0x1p-24 - 0.5;
    values.push_back(static_cast<float>(std::ldexp(value, -static_cast<int>(x & 15))));
  }
  return values;
}

class BitsandbytesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = SafetensorsFile::Open("tests/fixtures/optimizer/adamw_8bit.safetensors");
    ASSERT_TRUE(opened.ok()) << opened.status();
    file_ = *std::move(opened);
  }
  template <typename T>
  std::vector<T> Read(const std::string& name) const {
    const TensorInfo* tensor = file_->Find(name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<T> values(Size(tensor->elements()));
    std::memcpy(values.data(), tensor->data, static_cast<size_t>(tensor->bytes));
    return values;
  }

  std::unique_ptr<SafetensorsFile> file_;
};

TEST_F(BitsandbytesTest, MapsAreEqualBitByBit) {
  const DynamicMap* const maps[] = {&kSignedDynamicMap, &kUnsignedDynamicMap};
  const char* const names[] = {"qmap1", "qmap2"};
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        SameBits(Read<float>(names[i]), Floats(maps[i]->values, maps[i]->values + kDynamicCodes)));
  }
}

void ExpectWithinOneCode(const Codes& actual, const Codes& want) {
  ASSERT_EQ(actual.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_LE(std::abs(actual[i] - want[i]), 1) << i;
}

// Each update begins at the states of the file: a code that is one off would move all that follows.
TEST_F(BitsandbytesTest, EveryUpdateIsTheirs) {
  Blocks blocks(Draw(2100, 0));
  // Zeros are theirs too: the value of code 127 (signed) or 0, times an absmax of 0.
  OptimizerScalars scalars{.lr = 1e-3};
  for (int update = 1; update <= 4; ++update) {
    const std::string step = std::to_string(update);
    blocks.g = Draw(2100, static_cast<uint32_t>(update));
    AdamW8bitTensor tensor = blocks.Whole();
    tensor.tensor.weight_decay = 0.01;
    Update({tensor}, &scalars);
    // |p| < 0.5 is rounded twice here and three times there; the updates' steps are small.
    const Floats p = Read<float>("param_" + step);
    ExpectWithin(blocks.p, Double(p), 1e-6, "p");
    ExpectWithinOneCode(blocks.m, Read<uint8_t>("state1_" + step));
    ExpectWithinOneCode(blocks.v, Read<uint8_t>("state2_" + step));
    ExpectWithin(blocks.m_absmax, Double(Read<float>("absmax1_" + step)), 4 * kUnit, "m_absmax");
    ExpectWithin(blocks.v_absmax, Double(Read<float>("absmax2_" + step)), 4 * kUnit, "v_absmax");
    blocks.p = p;
    blocks.m = Read<uint8_t>("state1_" + step);
    blocks.v = Read<uint8_t>("state2_" + step);
    blocks.m_absmax = Read<float>("absmax1_" + step);
    blocks.v_absmax = Read<float>("absmax2_" + step);
  }
}

TEST(AdamW8bitTest, EachOf20UpdatesIsThatOfTheReference) {
  for (const int64_t n : {1, 255, 256, 257, 4099}) {
    Blocks blocks(Normal(n, static_cast<unsigned>(n)));
    OptimizerScalars scalars{
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .clip_factor = 0.5};
    const reference::AdamWOptions<double> o{1.6e-2, 0.9, 0.98, 1e-8, 0.1};
    for (unsigned update = 1; update <= 20; ++update) {
      blocks.g = Normal(n, 100 * update, 0.01f * static_cast<float>(update));
      AdamW8bitTensor tensor = blocks.Whole();
      tensor.tensor.lr_scale = 16;
      tensor.tensor.weight_decay = 0.1;
      const Reference before = blocks.Copy();
      Doubles gradient = Double(blocks.g);
      for (double& g : gradient) g *= scalars.clip_factor;
      Update({tensor}, &scalars);
      ExpectUpdate(o, gradient, update, /*rounding=*/0, before, blocks.Copy());
      ASSERT_FALSE(HasFatalFailure()) << n << " elements, update " << update;
      ASSERT_EQ(scalars.applied_updates, update);
    }
  }
}

TEST(AdamW8bitTest, PiecesAndThreadsUpdateAsTheWhole) {
  const auto updated = [](const std::vector<int64_t>& cuts, int threads) {
    SetNumThreads(threads);
    Blocks blocks(Normal(100'003, 1));
    OptimizerScalars scalars{.lr = 1e-3};
    for (unsigned update = 0; update < 3; ++update) {
      blocks.g = Normal(blocks.count(), 10 + update);
      std::vector<AdamW8bitTensor> list;
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        list.push_back(blocks.Piece(cuts[i], cuts[i + 1]));
      }
      Update(list, &scalars);
    }
    SetNumThreads(1);
    return blocks;
  };
  const Blocks whole = updated({0, 100'003}, 1);
  EXPECT_TRUE(updated({0, 256, 51'200, 99'840, 100'003}, 1) == whole);
  EXPECT_TRUE(updated({0, 100'003}, 3) == whole);
}

TEST(AdamW8bitTest, TensorsWithoutCodesAreThoseOfAdamW) {
  Floats p = Normal(1000, 1), m(1000), v(1000), twin = p, twin_m(1000), twin_v(1000);
  const Floats g = Normal(1000, 2);
  OptimizerScalars scalars{.lr = 1e-3}, twin_scalars = scalars;
  AdamW8bitTensor t;
  t.tensor = {.p = p.data(), .g = g.data(), .m = m.data(), .v = v.data(), .n = 1000};
  const AdamWTensor other{
      .p = twin.data(), .g = g.data(), .m = twin_m.data(), .v = twin_v.data(), .n = 1000};
  for (int update = 0; update < 3; ++update) {
    Update({t}, &scalars);
    AdamW({.tensors = &other, .count = 1, .chunks = 1, .scalars = &twin_scalars}, nullptr);
  }
  EXPECT_TRUE(SameBits(p, twin) && SameBits(m, twin_m) && SameBits(v, twin_v));
  EXPECT_EQ(scalars.applied_updates, 3);
}

// Invariant kernels-8.
TEST(AdamW8bitTest, SkipLeavesEverything) {
  Blocks blocks(Normal(600, 1));
  blocks.m = Codes(600, 3);
  blocks.v = Codes(600, 4);
  const Blocks before = blocks;
  blocks.g = Floats(600, std::numeric_limits<float>::quiet_NaN());
  OptimizerScalars scalars{.lr = 1e-3, .applied_updates = 7, .skip = 1};
  Update({blocks.Whole()}, &scalars);
  EXPECT_TRUE(blocks == before);
  EXPECT_EQ(scalars.applied_updates, 7);
}

// Invariant kernels-6: a block's states share their absmax, so they all depend on each of it.
TEST(AdamW8bitTest, NanStaysInItsBlock) {
  Blocks blocks(Normal(1024, 1));
  blocks.g = Normal(1024, 2);
  blocks.g[300] = std::numeric_limits<float>::quiet_NaN();
  OptimizerScalars scalars{.lr = 1e-3};
  Update({blocks.Whole()}, &scalars);
  for (size_t i = 0; i < 1024; ++i) EXPECT_EQ(std::isnan(blocks.p[i]), i == 300) << i;
  for (size_t b = 0; b < 4; ++b) {
    EXPECT_EQ(std::isnan(blocks.m_absmax[b]), b == 1);
    EXPECT_EQ(std::isnan(blocks.v_absmax[b]), b == 1);
  }
}

TEST(AdamW8bitTest, BlocksOfZerosAndOfTheSmallestStayFinite) {
  Blocks blocks(Floats(512, 1.0f));
  std::fill(blocks.g.begin() + 256, blocks.g.end(), 1e-37f);
  OptimizerScalars scalars{.lr = 1e-3};
  for (int update = 0; update < 3; ++update) Update({blocks.Whole()}, &scalars);
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(blocks.p[i], 1.0f);
    EXPECT_EQ(blocks.m[i], 127);
    EXPECT_EQ(blocks.v[i], 0);
  }
  for (const float p : blocks.p) EXPECT_TRUE(std::isfinite(p));
}

}  // namespace
}  // namespace adamw_8bit_test
}  // namespace coxswain::kernels
