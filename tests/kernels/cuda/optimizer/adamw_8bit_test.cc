// AdamW with 8-bit states in each of its storage forms.
#include "kernels/optimizer/adamw_8bit.h"

#include <limits>
#include <memory>

#include "kernels/optimizer/dynamic_map.h"
#include "tests/kernels/adamw_8bit_check.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_adamw_8bit_test {
namespace {

using Reference = reference::AdamW8bitState<double>;

struct Form {
  DType p, g;
  bool master;
};
constexpr Form kForms[] = {
    {DType::kFloat32, DType::kFloat32, false},  {DType::kFloat32, DType::kBFloat16, false},
    {DType::kBFloat16, DType::kFloat32, true},  {DType::kBFloat16, DType::kBFloat16, true},
    {DType::kBFloat16, DType::kFloat32, false}, {DType::kBFloat16, DType::kBFloat16, false}};

// A tensor in blocks on the device, `offset` elements behind the start of its memory.
class BlockTensor {
 public:
  BlockTensor(const Form& form, const Floats& initial, int64_t offset = 0)
      : form_(form),
        offset_(offset),
        count_(static_cast<int64_t>(initial.size())),
        p_(form.p, Shifted(initial)),
        g_(form.g, Shifted(Floats(initial.size()))),
        m_(Zeros()),
        v_(Zeros()),
        m_absmax_(DType::kFloat32, Floats(Size(StateBlocks(count_)))),
        v_absmax_(DType::kFloat32, Floats(Size(StateBlocks(count_)))) {
    if (form.master) master_ = std::make_unique<DeviceTensor>(DType::kFloat32, Shifted(initial));
  }

  void SetGradient(const Floats& g) { g_.Write(Shifted(g)); }
  // Elements [begin, end), block bounds but for the tensor's end.
  AdamW8bitTensor Piece(int64_t begin, int64_t end) const {
    const int64_t at = offset_ + begin;
    AdamW8bitTensor t;
    t.tensor.p = static_cast<char*>(p_.data()) + at * DTypeBytes(form_.p);
    t.tensor.g = static_cast<char*>(g_.data()) + at * DTypeBytes(form_.g);
    t.tensor.master = master_ == nullptr ? nullptr : master_->floats() + at;
    t.tensor.n = end - begin;
    t.tensor.begin = begin;
    t.tensor.p_dtype = form_.p;
    t.tensor.g_dtype = form_.g;
    t.tensor.index = 9;
    t.m_codes = m_.data() + at;
    t.v_codes = v_.data() + at;
    t.m_absmax = m_absmax_.floats() + begin / kStateBlock;
    t.v_absmax = v_absmax_.floats() + begin / kStateBlock;
    return t;
  }
  AdamW8bitTensor Whole() const { return Piece(0, count_); }

  Floats Copy() const { return Part(p_.Read()); }
  Floats Values() const { return Part(master_ == nullptr ? p_.Read() : master_->Read()); }
  Reference Read() const {
    const auto codes = [this](const DeviceValues<uint8_t>& values) {
      const std::vector<uint8_t> all = values.Read();
      return std::vector<uint8_t>(all.begin() + offset_, all.end());
    };
    return {Double(Values()),
            {codes(m_), Double(m_absmax_.Read())},
            {codes(v_), Double(v_absmax_.Read())}};
  }

 private:
  Floats Shifted(const Floats& values) const {
    Floats shifted(Size(offset_), 77.0f);
    shifted.insert(shifted.end(), values.begin(), values.end());
    return shifted;
  }
  std::vector<uint8_t> Zeros() const { return std::vector<uint8_t>(Size(offset_ + count_)); }
  Floats Part(const Floats& all) const { return Floats(all.begin() + offset_, all.end()); }

  Form form_;
  int64_t offset_, count_;
  DeviceTensor p_, g_;
  DeviceValues<uint8_t> m_, v_;
  DeviceTensor m_absmax_, v_absmax_;
  std::unique_ptr<DeviceTensor> master_;
};

void Update(std::vector<AdamW8bitTensor> list, const DeviceValues<OptimizerScalars>& scalars,
            uint32_t step = 1) {
  int64_t chunks = 0;
  for (AdamW8bitTensor& t : list) {
    t.tensor.first_chunk = chunks;
    chunks += TensorChunks(t.tensor.n);
  }
  const DeviceValues<AdamW8bitTensor> device_list(list);
  const DeviceValues<uint32_t> device_step({step});
  AdamW8bit({.tensors = device_list.data(),
             .count = static_cast<int64_t>(list.size()),
             .chunks = chunks,
             .scalars = scalars.data(),
             .draws = {.key = {11, 22}, .step = device_step.data()}},
            TestStream());
  Synchronize(TestStream());
}

bool SameStates(const Reference& a, const Reference& b) {
  return a.p == b.p && a.m.codes == b.m.codes && a.m.absmax == b.m.absmax &&
         a.v.codes == b.v.codes && a.v.absmax == b.v.absmax;
}

TEST(AdamW8bitGpuTest, EachOf20UpdatesIsThatOfTheReference) {
  for (const Form& form : kForms) {
    for (const auto& [n, offset] :
         {std::pair{1, 0}, {256, 0}, {4099, 0}, {16384 + 257, 0}, {4099, 3}, {1024, 2}}) {
      BlockTensor tensor(form, Normal(n, static_cast<unsigned>(n), form.p), offset);
      BlockTensor other(kForms[0], Normal(20000, 1, DType::kFloat32));
      const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{
          .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .clip_factor = 0.5}});
      const reference::AdamWOptions<double> o{1.6e-2, 0.9, 0.98, 1e-8, 0.1};
      for (unsigned update = 1; update <= 20; ++update) {
        const Floats g = Normal(n, 100 * update, form.g, 0.01f * static_cast<float>(update));
        tensor.SetGradient(g);
        AdamW8bitTensor record = tensor.Whole();
        record.tensor.lr_scale = 16;
        record.tensor.weight_decay = 0.1;
        const Reference before = tensor.Read();
        Update({other.Whole(), record}, scalars, update);
        Doubles gradient = Double(g);
        for (double& value : gradient) value *= 0.5;
        const bool stochastic = form.p == DType::kBFloat16 && !form.master;
        ExpectUpdate(o, gradient, update, stochastic ? 0x1p-7 : 0, before, tensor.Read());
        ASSERT_FALSE(HasFatalFailure())
            << Name(form.p) << (form.master ? " with master" : "") << ", gradient " << Name(form.g)
            << ", " << n << " elements, update " << update;
        const Floats values = tensor.Values(), copy = tensor.Copy();
        for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(copy[i], Round(values[i], form.p));
      }
      EXPECT_EQ(scalars.Read()[0].applied_updates, 20);
    }
  }
}

// Pieces begin at blocks; neither they nor the alignment nor a second run change a bit.
TEST(AdamW8bitGpuTest, PiecesUpdateAsTheWhole) {
  for (const Form& form : kForms) {
    const Floats initial = Normal(40003, 1, form.p);
    const auto updated = [&](const std::vector<int64_t>& cuts, int64_t offset) {
      BlockTensor tensor(form, initial, offset);
      const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{.lr = 1e-3}});
      for (unsigned update = 1; update <= 3; ++update) {
        tensor.SetGradient(Normal(40003, update, form.g));
        std::vector<AdamW8bitTensor> list;
        for (size_t i = 0; i + 1 < cuts.size(); ++i) {
          list.push_back(tensor.Piece(cuts[i], cuts[i + 1]));
        }
        Update(list, scalars, update);
      }
      return tensor.Read();
    };
    const Reference whole = updated({0, 40003}, 0);
    EXPECT_TRUE(SameStates(updated({0, 40003}, 0), whole));
    EXPECT_TRUE(SameStates(updated({0, 256, 16640, 40003}, 0), whole));
    EXPECT_TRUE(SameStates(updated({0, 40003}, 3), whole)) << Name(form.p);
  }
}

TEST(AdamW8bitGpuTest, TensorsWithoutCodesAreThoseOfAdamW) {
  const Floats initial = Normal(1003, 1, DType::kFloat32), zeros(1003);
  const DeviceTensor g(DType::kFloat32, Normal(1003, 2, DType::kFloat32));
  const auto updated = [&](bool blockwise) {
    const DeviceTensor p(DType::kFloat32, initial), m(DType::kFloat32, zeros);
    const DeviceTensor v(DType::kFloat32, zeros);
    AdamW8bitTensor t;
    t.tensor = {.p = p.data(), .g = g.data(), .m = m.data(), .v = v.data(), .n = 1003};
    const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{.lr = 1e-3}});
    if (blockwise) {
      BlockTensor beside(kForms[0], Normal(5000, 3, DType::kFloat32));
      Update({beside.Whole(), t}, scalars);
    } else {
      const DeviceValues<AdamWTensor> list({t.tensor});
      AdamW({.tensors = list.data(), .count = 1, .chunks = 1, .scalars = scalars.data()},
            TestStream());
    }
    Floats all = p.Read();
    for (const DeviceTensor* state : {&m, &v}) {
      const Floats values = state->Read();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  EXPECT_TRUE(SameBits(updated(true), updated(false)));
}

// Invariant kernels-8.
TEST(AdamW8bitGpuTest, SkipLeavesEverything) {
  BlockTensor tensor(kForms[3], Normal(20000, 1, DType::kBFloat16));
  const Reference before = tensor.Read();
  tensor.SetGradient(Floats(20000, std::numeric_limits<float>::quiet_NaN()));
  const DeviceValues<OptimizerScalars> scalars(
      {OptimizerScalars{.lr = 1e-3, .applied_updates = 7, .skip = 1}});
  Update({tensor.Whole()}, scalars);
  EXPECT_TRUE(SameStates(tensor.Read(), before));
  EXPECT_EQ(scalars.Read()[0].applied_updates, 7);
}

// Invariant kernels-6: a block's states share their absmax, so they all depend on each of it.
TEST(AdamW8bitGpuTest, NanStaysInItsBlock) {
  for (const int64_t offset : {0, 1}) {
    BlockTensor tensor(kForms[0], Normal(1024, 1, DType::kFloat32), offset);
    Floats g = Normal(1024, 2, DType::kFloat32);
    g[300] = std::numeric_limits<float>::quiet_NaN();
    tensor.SetGradient(g);
    const DeviceValues<OptimizerScalars> scalars({OptimizerScalars{.lr = 1e-3}});
    Update({tensor.Whole()}, scalars);
    const Reference after = tensor.Read();
    for (size_t i = 0; i < 1024; ++i) EXPECT_EQ(std::isnan(after.p[i]), i == 300) << i;
    for (size_t b = 0; b < 4; ++b) {
      EXPECT_EQ(std::isnan(after.m.absmax[b]), b == 1);
      EXPECT_EQ(std::isnan(after.v.absmax[b]), b == 1);
    }
  }
}

}  // namespace
}  // namespace gpu_adamw_8bit_test
}  // namespace coxswain::kernels
