// Invariant kernels-2: ops over all elements of a tensor, updates, and quantised tensors.
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/quantize/fp8_blocks.h"
#include "kernels/quantize/int8_rows.h"
#include "kernels/quantize/mxfp4.h"
#include "kernels/quantize/nf4.h"
#include "kernels/tensors/whole_tensors.h"
#include "tests/kernels/cuda/large_tensor.h"

namespace coxswain::kernels {
namespace gpu_large_sizes_test {
namespace {

constexpr int64_t kColumns = 4096;  // whole blocks of every format
constexpr int64_t kFew = kLast * kColumns;
constexpr int64_t kFirst = ((int64_t{1} << 31) / kColumns + 1) * kColumns;  // elements before them
constexpr int64_t kRows = (kFirst + kFew) / kColumns;

// Bytes behind one another, of which the last are read.
std::vector<uint8_t> LastBytes(const DeviceBytes& memory, int64_t count) {
  std::vector<uint8_t> bytes(Size(count));
  Synchronize(TestStream());
  CopyMemory(bytes.data(), static_cast<char*>(memory.data()) + memory.bytes() - count, count,
             nullptr);
  return bytes;
}

TEST(LargeListsGpuTest, Scale) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  const int64_t n = 4095, rows = RowsOf(n);  // the last elements fill no vector
  const Floats last = Rows(n, 1);
  const LargeTensor x(rows, n, last);
  const DeviceTensor few(kType, last);
  const DeviceValues<float> factor({0.75f});
  Scale({.dtype = kType, .count = rows * n, .factor = factor.data(), .x = x.data()}, TestStream());
  Scale({.dtype = kType, .count = kLast * n, .factor = factor.data(), .x = few.data()},
        TestStream());
  ExpectLast(x, few, "scaled");
}

// Whole numbers add exactly.
TEST(LargeListsGpuTest, SumsAndNorms) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  Floats last = Rows(kColumns, 1);
  double want = 0, squares = 0;
  for (float& value : last) {
    value = std::nearbyint(4 * value);
    want += value;
    squares += static_cast<double>(value) * value;
  }
  const LargeTensor values(kRows, kColumns, last, DType::kFloat32);
  const int64_t count = kRows * kColumns, chunks = TensorChunks(count);
  const DeviceValues<double> sum({0.0});
  Sum({.count = count, .values = static_cast<const float*>(values.data()), .sum = sum.data()},
      TestStream());
  EXPECT_EQ(sum.Read()[0], want);
  const DeviceValues<NormTensor> list({{values.data(), count, 0, DType::kFloat32}});
  const DeviceValues<NormSums> sums({NormSums{}, NormSums{}});
  const Scratch scratch(GlobalNormWorkspaceBytes(chunks));
  GlobalNorm({.tensors = list.data(),
              .count = 1,
              .chunks = chunks,
              .sums = sums.data(),
              .workspace = scratch.workspace()},
             TestStream());
  TensorNorms({.tensors = list.data(),
               .count = 1,
               .chunk_sums = static_cast<const NormSums*>(scratch.workspace().data),
               .sums = sums.data() + 1},
              TestStream());
  for (const NormSums& got : sums.Read()) EXPECT_EQ(got.sum_squares, squares);
}

// Sums that see the last elements, and where those lie.
TEST(LargeListsGpuTest, Checksums) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  const int64_t count = kRows * kColumns;
  const auto sums_of = [&](const Floats& last) {
    const LargeTensor values(kRows, kColumns, last);
    const DeviceValues<uint64_t> sum({0});
    const DeviceValues<int32_t> all_zero({1});
    const DeviceValues<NormTensor> list({{values.data(), count, 0, kType}});
    const DeviceValues<TensorBits> bits({TensorBits{}});
    Checksum({.dtype = kType, .count = count, .values = values.data(), .sum = sum.data()},
             TestStream());
    AllZero({.dtype = kType, .count = count, .values = values.data(), .all_zero = all_zero.data()},
            TestStream());
    ChecksumTensors(
        {.tensors = list.data(), .count = 1, .chunks = TensorChunks(count), .bits = bits.data()},
        TestStream());
    EXPECT_EQ(bits.Read()[0].checksum, sum.Read()[0]);
    EXPECT_EQ(bits.Read()[0].nonzero, all_zero.Read()[0] == 0 ? 1u : 0u);
    return bits.Read()[0];
  };
  Floats last(Size(kFew), 0.0f);
  const TensorBits zeros = sums_of(last);
  EXPECT_EQ(zeros.nonzero, 0u);
  last[last.size() - 1] = 1.0f;
  const TensorBits end = sums_of(last);
  EXPECT_EQ(end.nonzero, 1u);
  EXPECT_NE(end.checksum, zeros.checksum);
  std::swap(last[last.size() - 1], last[last.size() - 2]);
  EXPECT_NE(sums_of(last).checksum, end.checksum);
  EXPECT_NE(sums_of(last).checksum, zeros.checksum);
}

OptimizerScalars Scalars() {
  OptimizerScalars scalars;
  scalars.lr = 0.01;
  return scalars;
}

// Values are bfloat16 without a master: their rounding is drawn by the element's number.
TEST(LargeListsGpuTest, AdamW) {
  SKIP_WITHOUT_MEMORY_FOR(6);
  const Floats last_p = Rows(kColumns, 1), last_g = Rows(kColumns, 2);
  const Floats none(Size(kFew), 0.0f);
  const LargeTensor p(kRows, kColumns, last_p), g(kRows, kColumns, last_g);
  const LargeTensor m(kRows, kColumns, none, DType::kFloat32),
      v(kRows, kColumns, none, DType::kFloat32);
  const DeviceTensor few_p(kType, last_p), few_g(kType, last_g);
  const DeviceTensor few_m(DType::kFloat32, none), few_v(DType::kFloat32, none);
  const DeviceValues<uint32_t> step({3});
  const auto update = [&](AdamWTensor tensor, int64_t count, int64_t begin) {
    tensor.n = count;
    tensor.begin = begin;
    tensor.p_dtype = tensor.g_dtype = kType;
    const DeviceValues<AdamWTensor> list({tensor});
    const DeviceValues<OptimizerScalars> scalars({Scalars()});
    AdamW({.tensors = list.data(),
           .count = 1,
           .chunks = TensorChunks(count),
           .scalars = scalars.data(),
           .draws = {.key = {1, 2}, .step = step.data()}},
          TestStream());
    Synchronize(TestStream());  // before the list goes
  };
  update({.p = p.data(), .g = g.data(), .m = m.data(), .v = v.data()}, kRows * kColumns, 0);
  update({.p = few_p.data(), .g = few_g.data(), .m = few_m.data(), .v = few_v.data()}, kFew,
         kFirst);
  ExpectLast(p, few_p, "value");
  ExpectLast(m, few_m, "first moment");
  ExpectLast(v, few_v, "second moment");
  EXPECT_FALSE(SameBits(few_p.Read(), last_p));
}

TEST(LargeListsGpuTest, AdamW8bit) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  const Floats last_p = Rows(kColumns, 1), last_g = Rows(kColumns, 2);
  const LargeTensor p(kRows, kColumns, last_p), g(kRows, kColumns, last_g);
  const DeviceTensor few_p(kType, last_p), few_g(kType, last_g);
  const DeviceValues<uint32_t> step({3});
  // Returns the codes of the last elements: all states begin at 0.
  const auto update = [&](void* values, const void* gradient, int64_t count, int64_t begin) {
    const DeviceBytes m(count), v(count), m_absmax(4 * StateBlocks(count)),
        v_absmax(4 * StateBlocks(count));
    for (const DeviceBytes* bytes : {&m, &v, &m_absmax, &v_absmax}) {
      SetMemory(bytes->data(), 0, bytes->bytes(), nullptr);
    }
    AdamW8bitTensor tensor;
    tensor.tensor = {.p = values, .g = gradient, .n = count, .begin = begin};
    tensor.tensor.p_dtype = tensor.tensor.g_dtype = kType;
    tensor.m_codes = static_cast<uint8_t*>(m.data());
    tensor.v_codes = static_cast<uint8_t*>(v.data());
    tensor.m_absmax = static_cast<float*>(m_absmax.data());
    tensor.v_absmax = static_cast<float*>(v_absmax.data());
    const DeviceValues<AdamW8bitTensor> list({tensor});
    const DeviceValues<OptimizerScalars> scalars({Scalars()});
    AdamW8bit({.tensors = list.data(),
               .count = 1,
               .chunks = TensorChunks(count),
               .scalars = scalars.data(),
               .draws = {.key = {1, 2}, .step = step.data()}},
              TestStream());
    std::vector<uint8_t> codes = LastBytes(m, kFew);
    const std::vector<uint8_t> second = LastBytes(v, kFew);
    codes.insert(codes.end(), second.begin(), second.end());
    return codes;
  };
  const std::vector<uint8_t> of_all = update(p.data(), g.data(), kRows * kColumns, 0);
  EXPECT_EQ(of_all, update(few_p.data(), few_g.data(), kFew, kFirst));
  ExpectLast(p, few_p, "value");
  EXPECT_FALSE(SameBits(few_p.Read(), last_p));
}

// Rows as floats, quantised and back: those of the last rows alone.
template <typename ThereAndBack>
void CheckFormat(const ThereAndBack& there_and_back) {
  const Floats last = Rows(kColumns, 1);
  const LargeTensor in(kRows, kColumns, last, DType::kFloat32), out(kRows, kColumns);
  const DeviceTensor few(DType::kFloat32, last), few_out(kType, kFew);
  there_and_back(kRows, in.data(), out.data());
  there_and_back(kLast, few.data(), few_out.data());
  ExpectLast(out, few_out, "dequantised");
  EXPECT_FALSE(SameBits(few_out.Read(), Floats(Size(kFew), 0.0f)));
}

TEST(LargeListsGpuTest, Nf4) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  CheckFormat([](int64_t rows, const void* in, void* out) {
    const int64_t elements = rows * kColumns;
    const DeviceBytes codes(elements / 2), absmax(4 * Nf4Blocks(elements));
    Nf4Quantize({.elements = elements,
                 .in = static_cast<const float*>(in),
                 .codes = static_cast<uint8_t*>(codes.data()),
                 .absmax = static_cast<float*>(absmax.data())},
                TestStream());
    Nf4Dequantize({.dtype = kType,
                   .elements = elements,
                   .codes = static_cast<const uint8_t*>(codes.data()),
                   .absmax = static_cast<const float*>(absmax.data()),
                   .out = out},
                  TestStream());
    Synchronize(TestStream());
  });
}

TEST(LargeListsGpuTest, Int8Rows) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  CheckFormat([](int64_t rows, const void* in, void* out) {
    const DeviceBytes codes(rows * kColumns), absmax(4 * rows);
    Int8QuantizeRows({.rows = rows,
                      .cols = kColumns,
                      .in = static_cast<const float*>(in),
                      .codes = static_cast<int8_t*>(codes.data()),
                      .absmax = static_cast<float*>(absmax.data())},
                     TestStream());
    Int8DequantizeRows({.dtype = kType,
                        .rows = rows,
                        .cols = kColumns,
                        .codes = static_cast<const int8_t*>(codes.data()),
                        .absmax = static_cast<const float*>(absmax.data()),
                        .out = out},
                       TestStream());
    Synchronize(TestStream());
  });
}

TEST(LargeListsGpuTest, Mxfp4) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  CheckFormat([](int64_t rows, const void* in, void* out) {
    const int64_t elements = rows * kColumns;
    const DeviceBytes codes(elements / 2), scales(Mxfp4Blocks(elements));
    Mxfp4Quantize({.elements = elements,
                   .in = static_cast<const float*>(in),
                   .codes = static_cast<uint8_t*>(codes.data()),
                   .scales = static_cast<uint8_t*>(scales.data())},
                  TestStream());
    Mxfp4Dequantize({.dtype = kType,
                     .elements = elements,
                     .codes = static_cast<const uint8_t*>(codes.data()),
                     .scales = static_cast<const uint8_t*>(scales.data()),
                     .out = out},
                    TestStream());
    Synchronize(TestStream());
  });
}

// Codes 0x38 are 1: the last rows are the scales of their blocks.
TEST(LargeListsGpuTest, Fp8Blocks) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  const DeviceBytes codes(kRows * kColumns);
  SetMemory(codes.data(), 0, codes.bytes(), nullptr);
  SetMemory(static_cast<char*>(codes.data()) + kFirst, 0x38, kFew, nullptr);
  const int64_t across = Fp8Blocks(kColumns);
  Floats every_scale(Size(Fp8Blocks(kRows) * across), 1.0f), want;
  for (size_t i = 0; i < every_scale.size(); ++i) every_scale[i] = static_cast<float>(1 + i % 128);
  for (int64_t row = kRows - kLast; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      want.push_back(every_scale[Size(row / kFp8Block * across + column / kFp8Block)]);
    }
  }
  const DeviceTensor scales(DType::kFloat32, every_scale);
  const LargeTensor out(kRows, kColumns);
  Fp8BlocksDequantize({.dtype = kType,
                       .rows = kRows,
                       .cols = kColumns,
                       .codes = static_cast<const uint8_t*>(codes.data()),
                       .scales = scales.floats(),
                       .out = out.data()},
                      TestStream());
  EXPECT_TRUE(SameBits(out.Last(), want));
  EXPECT_TRUE(out.StartsWithZeros());
}

}  // namespace
}  // namespace gpu_large_sizes_test
}  // namespace coxswain::kernels
