// MXFP4 and FP8 blocks as transformers dequantises them: tests/fixtures/block_formats.
#include "kernels/quantize/fp8_blocks.h"
#include "kernels/quantize/mxfp4.h"
#include "tests/kernels/quantized_memory.h"

namespace coxswain::kernels {
namespace block_formats_golden_test {
namespace {

class BlockFormatsGoldenTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = SafetensorsFile::Open("tests/fixtures/block_formats/block_formats.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }

  template <typename T>
  std::vector<T> Values(const std::string& name) const {
    const TensorInfo* tensor = file_->Find(name);
    EXPECT_NE(tensor, nullptr) << name;
    if (tensor == nullptr) return {};
    std::vector<T> values(static_cast<size_t>(tensor->bytes) / sizeof(T));
    std::memcpy(values.data(), tensor->data, static_cast<size_t>(tensor->bytes));
    return values;
  }

 private:
  std::unique_ptr<SafetensorsFile> file_;
};

// But for the last block, whose scale is 255.
template <typename T>
std::vector<T> Mxfp4(DType dtype, const std::vector<uint8_t>& codes,
                     const std::vector<uint8_t>& scales) {
  const OnDevice<uint8_t> device_codes(codes), device_scales(scales);
  const int64_t elements = 255 * kMxfp4Block;
  const OnDevice<T> out(elements);
  Mxfp4Dequantize({dtype, elements, device_codes.data(), device_scales.data(), out.data()},
                  nullptr);
  Synchronize(nullptr);
  return out.Read();
}

TEST_F(BlockFormatsGoldenTest, Mxfp4HasTheBitsOfTransformers) {
  const auto codes = Values<uint8_t>("mxfp4.codes"), scales = Values<uint8_t>("mxfp4.scales");
  auto words = Values<uint32_t>("mxfp4.float32");
  words.resize(255 * kMxfp4Block);
  EXPECT_EQ(Mxfp4<uint32_t>(DType::kFloat32, codes, scales), words);
  auto halves = Values<uint16_t>("mxfp4.bfloat16");
  halves.resize(255 * kMxfp4Block);
  EXPECT_EQ(Mxfp4<uint16_t>(DType::kBFloat16, codes, scales), halves);
}

template <typename T>
std::vector<T> Fp8(DType dtype, const std::vector<uint8_t>& codes,
                   const std::vector<float>& scales) {
  const OnDevice<uint8_t> device_codes(codes);
  const OnDevice<float> device_scales(scales);
  const OnDevice<T> out(130 * 140);
  Fp8BlocksDequantize({.dtype = dtype,
                       .rows = 130,
                       .cols = 140,
                       .codes = device_codes.data(),
                       .scales = device_scales.data(),
                       .out = out.data()},
                      nullptr);
  Synchronize(nullptr);
  return out.Read();
}

TEST_F(BlockFormatsGoldenTest, Fp8HasTheBitsOfTransformers) {
  const auto codes = Values<uint8_t>("fp8.codes");
  const auto scales = Values<float>("fp8.scales");
  const auto words = Fp8<uint32_t>(DType::kFloat32, codes, scales);
  const auto halves = Fp8<uint16_t>(DType::kBFloat16, codes, scales);
  const auto expected = Values<uint32_t>("fp8.float32");
  const auto expected_halves = Values<uint16_t>("fp8.bfloat16");
  ASSERT_EQ(words.size(), expected.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    if ((codes[i] & 127) == 127) continue;  // NaN, whose bits are nobody's
    EXPECT_EQ(words[i], expected[i]) << i;
    EXPECT_EQ(halves[i], expected_halves[i]) << i;
  }
}

}  // namespace
}  // namespace block_formats_golden_test
}  // namespace coxswain::kernels
