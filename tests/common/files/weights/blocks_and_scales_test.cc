#include "common/files/weights/blocks_and_scales.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "tests/kernels/expert_golden.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace blocks_and_scales_test {
namespace {

const std::string kStack = "model.layers.0.mlp.experts.gate_up_proj";
const std::string kMatrix = "model.layers.0.self_attn.o_proj.weight";

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::unique_ptr<WeightFiles> Open(const std::string& directory) {
  auto files = WeightFiles::Open(directory);
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : nullptr;
}

std::vector<float> RowsOf(const BlocksAndScales& from, const ExpertRows& rows) {
  std::vector<float> values(static_cast<size_t>((rows.end - rows.begin) * from.cols));
  const absl::Status status = CopyRowsAsFloat(from, rows, values.data());
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

std::vector<float> FloatsOf(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  EXPECT_TRUE(CopyAsFloat(tensor, values.data()).ok());
  return values;
}

TensorSource Source(const std::string& name, ElementType dtype, const std::vector<int64_t>& shape,
                    const std::vector<uint8_t>& bytes = {}) {
  return {name, dtype, shape, [=](uint8_t* out) {
            const TensorInfo tensor{.name = name, .dtype = dtype, .shape = shape};
            const auto size = static_cast<size_t>(tensor.elements() * ElementBits(dtype) / 8);
            std::memset(out, 0, size);
            if (!bytes.empty()) std::memcpy(out, bytes.data(), size);
            return absl::OkStatus();
          }};
}

std::vector<uint8_t> BytesOf(const TensorInfo& tensor) {
  return {tensor.data, tensor.data + tensor.bytes};
}

// Small files, of tensors of tests/fixtures/block_formats.
class BlocksAndScalesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = SafetensorsFile::Open("tests/fixtures/block_formats/block_formats.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    fixture_ = *std::move(file);
  }

  const TensorInfo& Fixture(const std::string& name) const { return *fixture_->Find(name); }
  // Two experts of 64 rows and two blocks.
  std::vector<TensorSource> Stack() const {
    return {
        Source(kStack + "_blocks", ElementType::kU8, {2, 64, 2, 16},
               BytesOf(Fixture("mxfp4.codes"))),
        Source(kStack + "_scales", ElementType::kU8, {2, 64, 2}, BytesOf(Fixture("mxfp4.scales")))};
  }
  std::vector<TensorSource> Matrix() const {
    return {
        Source(kMatrix, ElementType::kF8E4M3, {130, 140}, BytesOf(Fixture("fp8.codes"))),
        Source(kMatrix + "_scale_inv", ElementType::kF32, {2, 2}, BytesOf(Fixture("fp8.scales")))};
  }
  std::unique_ptr<WeightFiles> Written(const std::vector<TensorSource>& tensors) const {
    EXPECT_TRUE(WriteSafetensors(File(), tensors).ok());
    return Open(folder_.path());
  }
  BlocksAndScales Found(const WeightFiles& files, const std::string& name) const {
    const auto found = FindBlocksAndScales(files, name);
    EXPECT_TRUE(found.ok() && found->has_value()) << found.status();
    return found.ok() && found->has_value() ? **found : BlocksAndScales{};
  }
  std::string Refusal(const std::vector<TensorSource>& tensors, const std::string& name) const {
    const auto found = FindBlocksAndScales(*Written(tensors), name);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(found.status().message());
  }
  std::string File() const { return folder_.path() + "/model.safetensors"; }

 private:
  std::unique_ptr<SafetensorsFile> fixture_;
  const support::ScratchFolder folder_;
};

// But for the last block, whose scale is 255.
TEST_F(BlocksAndScalesTest, Mxfp4IsWhatTransformersReads) {
  const auto files = Written(Stack());
  const BlocksAndScales stack = Found(*files, kStack);
  EXPECT_EQ(stack.format, BlocksAndScales::Format::kMxfp4);
  EXPECT_EQ(stack.experts, 2);
  EXPECT_EQ(stack.rows, 64);
  EXPECT_EQ(stack.cols, 64);
  std::vector<float> expected = FloatsOf(Fixture("mxfp4.float32"));
  std::vector<float> got = RowsOf(stack, {0, 0, 64});
  const std::vector<float> second = RowsOf(stack, {1, 0, 64});
  got.insert(got.end(), second.begin(), second.end());
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = got.size() - 32; i < got.size(); ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
  got.resize(got.size() - 32);
  expected.resize(got.size());
  EXPECT_EQ(Bits(got), Bits(expected));
}

TEST_F(BlocksAndScalesTest, Mxfp4RowsLieInPlace) {
  const auto files = Written(Stack());
  const BlocksAndScales stack = Found(*files, kStack);
  const std::vector<float> whole = RowsOf(stack, {1, 0, 64});
  const std::vector<float> part = RowsOf(stack, {1, 5, 8});
  EXPECT_EQ(Bits(part), Bits({whole.begin() + 5 * 64, whole.begin() + 8 * 64}));
  const Mxfp4Rows rows = Mxfp4RowsOf(stack, {1, 5, 8});
  EXPECT_EQ(rows.codes, stack.codes->data + (64 + 5) * 32);
  EXPECT_EQ(rows.scales, stack.scales->data + (64 + 5) * 2);
}

TEST_F(BlocksAndScalesTest, Fp8IsWhatTransformersReads) {
  const auto files = Written(Matrix());
  const BlocksAndScales matrix = Found(*files, kMatrix);
  EXPECT_EQ(matrix.format, BlocksAndScales::Format::kFp8);
  EXPECT_EQ(matrix.experts, 1);
  EXPECT_EQ(matrix.rows, 130);
  EXPECT_EQ(matrix.cols, 140);
  const std::vector<float> expected = FloatsOf(Fixture("fp8.float32"));
  const std::vector<uint8_t> codes = BytesOf(Fixture("fp8.codes"));
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 130}, {127, 130}, {5, 5}}) {
    const std::vector<float> got = RowsOf(matrix, {0, begin, end});
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t place = static_cast<size_t>(begin * 140) + i;
      if ((codes[place] & 127) == 127) {
        EXPECT_TRUE(std::isnan(got[i])) << place;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[place]))
            << place;
      }
    }
  }
}

// Of three experts of 129 rows: each has two rows of blocks.
TEST_F(BlocksAndScalesTest, Fp8StacksHaveTheirOwnScales) {
  std::vector<uint8_t> scales;
  for (const float scale : {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}) {
    const auto bytes = std::bit_cast<std::array<uint8_t, 4>>(scale);
    scales.insert(scales.end(), bytes.begin(), bytes.end());
  }
  const std::vector<uint8_t> ones(3 * 129 * 8, 0x38);
  const auto files = Written({Source(kStack, ElementType::kF8E4M3, {3, 129, 8}, ones),
                              Source(kStack + "_scale_inv", ElementType::kF32, {3, 2, 1}, scales)});
  const BlocksAndScales stack = Found(*files, kStack);
  EXPECT_EQ(RowsOf(stack, {1, 128, 129}), std::vector<float>(8, 4.0f));
  EXPECT_EQ(RowsOf(stack, {2, 127, 128}), std::vector<float>(8, 5.0f));
}

TEST_F(BlocksAndScalesTest, OtherTensorsAreNone) {
  const auto files = Written({Source("model.norm.weight", ElementType::kBF16, {8}),
                              Source("x.weight", ElementType::kU8, {4, 4})});
  for (const char* name : {"model.norm.weight", "x.weight", "absent"}) {
    const auto found = FindBlocksAndScales(*files, name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_FALSE(found->has_value()) << name;
  }
}

TEST_F(BlocksAndScalesTest, NamesAPartThatIsMissing) {
  EXPECT_EQ(Refusal({Stack()[0]}, kStack), "tensor \"" + kStack + "_scales\" is missing beside \"" +
                                               kStack + "_blocks\" [2, 64, 2, 16] of U8 in " +
                                               File());
  EXPECT_EQ(Refusal({Stack()[1]}, kStack), "tensor \"" + kStack + "_blocks\" is missing beside \"" +
                                               kStack + "_scales\" [2, 64, 2] of U8 in " + File());
  EXPECT_EQ(Refusal({Matrix()[0]}, kMatrix), "tensor \"" + kMatrix +
                                                 "_scale_inv\" is missing beside \"" + kMatrix +
                                                 "\" [130, 140] of F8_E4M3 in " + File());
  EXPECT_EQ(Refusal({Matrix()[1]}, kMatrix), "tensor \"" + kMatrix + "\" is missing beside \"" +
                                                 kMatrix + "_scale_inv\" [2, 2] of F32 in " +
                                                 File());
}

TEST_F(BlocksAndScalesTest, NamesBothShapesAndTheFile) {
  const std::string message =
      Refusal({Stack()[0], Source(kStack + "_scales", ElementType::kU8, {2, 63, 2})}, kStack);
  EXPECT_EQ(message, "tensor \"" + kStack + "_blocks\" [2, 64, 2, 16] of U8 in " + File() +
                         " and tensor \"" + kStack + "_scales\" [2, 63, 2] of U8 in " + File() +
                         ": MXFP4 has blocks [experts, rows, cols / 32, 16] and scales "
                         "[experts, rows, cols / 32], both of U8");
  EXPECT_EQ(
      Refusal({Matrix()[0], Source(kMatrix + "_scale_inv", ElementType::kF32, {1, 2})}, kMatrix),
      "tensor \"" + kMatrix + "\" [130, 140] of F8_E4M3 in " + File() + " and tensor \"" + kMatrix +
          "_scale_inv\" [1, 2] of F32 in " + File() +
          ": FP8 in blocks of 128 x 128 has F8_E4M3 [rows, cols] and F32 [rows / 128, "
          "cols / 128], divided up");
}

TEST_F(BlocksAndScalesTest, RefusesOtherShapesAndTypes) {
  const auto mxfp4 = [&](ElementType blocks_type, const std::vector<int64_t>& blocks,
                         ElementType scales_type, const std::vector<int64_t>& scales) {
    return Refusal({Source(kStack + "_blocks", blocks_type, blocks),
                    Source(kStack + "_scales", scales_type, scales)},
                   kStack);
  };
  for (const std::string& message :
       {mxfp4(ElementType::kU8, {2, 64, 2, 8}, ElementType::kU8, {2, 64, 2}),
        mxfp4(ElementType::kU8, {2, 64, 16}, ElementType::kU8, {2, 64, 2}),
        mxfp4(ElementType::kU8, {2, 16}, ElementType::kU8, {2}),
        mxfp4(ElementType::kU8, {1, 1, 4, 2, 16}, ElementType::kU8, {1, 1, 4, 2}),
        mxfp4(ElementType::kI8, {2, 64, 2, 16}, ElementType::kU8, {2, 64, 2}),
        mxfp4(ElementType::kU8, {2, 64, 2, 16}, ElementType::kF32, {2, 64, 2})}) {
    EXPECT_NE(message.find("MXFP4 has blocks"), std::string::npos) << message;
  }
  const auto fp8 = [&](ElementType type, const std::vector<int64_t>& shape, ElementType scales_type,
                       const std::vector<int64_t>& scales) {
    return Refusal(
        {Source(kMatrix, type, shape), Source(kMatrix + "_scale_inv", scales_type, scales)},
        kMatrix);
  };
  for (const std::string& message :
       {fp8(ElementType::kF8E4M3, {256}, ElementType::kF32, {2}),
        fp8(ElementType::kF8E4M3, {}, ElementType::kF32, {}),
        fp8(ElementType::kF8E4M3, {128, 256}, ElementType::kF32, {2, 1}),
        fp8(ElementType::kF8E4M3, {2, 128, 128}, ElementType::kF32, {1, 1}),
        fp8(ElementType::kF8E5M2, {128, 256}, ElementType::kF32, {1, 2}),
        fp8(ElementType::kBF16, {128, 256}, ElementType::kF32, {1, 2}),
        fp8(ElementType::kF8E4M3, {128, 256}, ElementType::kBF16, {1, 2})}) {
    EXPECT_NE(message.find("FP8 in blocks of"), std::string::npos) << message;
  }
}

TEST_F(BlocksAndScalesTest, RefusesRowsThatAreNotThere) {
  const auto files = Written(Stack());
  const BlocksAndScales stack = Found(*files, kStack);
  for (const ExpertRows& rows :
       {ExpertRows{2, 0, 1}, {-1, 0, 1}, {0, -1, 1}, {0, 2, 1}, {0, 0, 65}}) {
    const absl::Status status = CopyRowsAsFloat(stack, rows, nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "tensor \"" + kStack +
                                    "_blocks\" has 2 experts of 64 rows, asked for rows [" +
                                    std::to_string(rows.begin) + ", " + std::to_string(rows.end) +
                                    ") of expert " + std::to_string(rows.expert));
  }
}

// The stacks of the twin are [experts, cols, rows].
void ExpectTheTwinOfMxfp4(const std::string& folder) {
  const auto files = Open(folder), twin = Open(folder + "/dequantised");
  int found = 0;
  for (const TensorInfo* expected : twin->tensors()) {
    const auto stack = FindBlocksAndScales(*files, expected->name);
    ASSERT_TRUE(stack.ok()) << stack.status();
    if (!stack->has_value()) continue;
    ++found;
    const auto [experts, rows, cols] =
        std::tuple((*stack)->experts, (*stack)->rows, (*stack)->cols);
    ASSERT_EQ(expected->shape, (std::vector<int64_t>{experts, cols, rows})) << expected->name;
    const std::vector<float> values = FloatsOf(*expected);
    for (int64_t e = 0; e < experts; ++e) {
      const std::vector<float> got = RowsOf(**stack, {e, 0, rows});
      for (int64_t i = 0; i < rows * cols; ++i) {
        const int64_t place = (e * cols + i % cols) * rows + i / cols;
        ASSERT_EQ(std::bit_cast<uint32_t>(got[static_cast<size_t>(i)]),
                  std::bit_cast<uint32_t>(values[static_cast<size_t>(place)]))
            << expected->name << " expert " << e << " element " << i;
      }
    }
  }
  EXPECT_GE(found, 2) << folder;
}

void ExpectTheTwinOfFp8(const std::string& folder) {
  const auto files = Open(folder), twin = Open(folder + "/dequantised");
  int found = 0;
  for (const TensorInfo* expected : twin->tensors()) {
    const auto matrix = FindBlocksAndScales(*files, expected->name);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    if (!matrix->has_value()) continue;
    ++found;
    EXPECT_EQ(Bits(RowsOf(**matrix, {0, 0, (*matrix)->rows})), Bits(FloatsOf(*expected)))
        << expected->name;
  }
  EXPECT_GE(found, 2) << folder;
}

class BlocksAndScalesTwinTest : public testing::TestWithParam<const char*> {};

TEST_P(BlocksAndScalesTwinTest, HasTheBitsOfTheDequantisedTwin) {
  const std::string name = GetParam();
  const std::string folder = kernels::ExpertGoldenFolder(name);
  if (folder.empty()) GTEST_SKIP() << "moe/" << name << " is in no folder of fixtures";
  name.starts_with("gpt_oss") ? ExpectTheTwinOfMxfp4(folder) : ExpectTheTwinOfFp8(folder);
}
INSTANTIATE_TEST_SUITE_P(Cases, BlocksAndScalesTwinTest,
                         testing::Values("gpt_oss_mxfp4_attn_lora", "gpt_oss_mxfp4_expert_lora",
                                         "deepseek_v3_fp8_attn_lora", "deepseek_v3_fp8_full"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace blocks_and_scales_test
}  // namespace coxswain
