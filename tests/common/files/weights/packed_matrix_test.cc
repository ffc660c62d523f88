#include "common/files/weights/packed_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "tests/common/files/torch_archive.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

const std::string kName = "model.layers.0.mlp.down_proj.weight";

std::unique_ptr<WeightFiles> Open(const std::string& directory) {
  auto files = WeightFiles::Open(directory);
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : nullptr;
}

// The checkpoint without, or with another, tensor.
class PackedMatrixTest : public testing::Test {
 protected:
  std::string Message(const std::string& part, const std::vector<uint8_t>* bytes, ElementType dtype,
                      const std::vector<int64_t>& shape) {
    const auto from = Open(support::GoldenFolder("llama_qlora"));
    std::vector<TensorSource> tensors;
    for (const TensorInfo* tensor : from->tensors()) {
      const bool changed = tensor->name == part;
      if (changed && bytes == nullptr) continue;
      tensors.push_back({tensor->name, changed ? dtype : tensor->dtype,
                         changed ? shape : tensor->shape, [=](uint8_t* out) {
                           if (changed) {
                             std::copy(bytes->begin(), bytes->end(), out);
                           } else {
                             std::memcpy(out, tensor->data, static_cast<size_t>(tensor->bytes));
                           }
                           return absl::OkStatus();
                         }});
    }
    EXPECT_TRUE(WriteSafetensors(folder_.path() + "/model.safetensors", tensors).ok());
    const auto found = FindPackedMatrix(*Open(folder_.path()), kName);
    return found.ok() ? "" : std::string(found.status().message());
  }
  std::string WithState(const std::string& json) {
    const std::vector<uint8_t> bytes(json.begin(), json.end());
    return Message(kName + ".quant_state.bitsandbytes__nf4", &bytes, ElementType::kU8,
                   {static_cast<int64_t>(bytes.size())});
  }

  const support::ScratchFolder folder_;
};

TEST_F(PackedMatrixTest, IsWhatBitsandbytesWrote) {
  const auto files = Open(support::GoldenFolder("llama_qlora"));
  const auto found = FindPackedMatrix(*files, kName);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  const PackedMatrix& matrix = **found;
  EXPECT_EQ(matrix.format, Quantization::kNf4Double);
  EXPECT_EQ(matrix.shape, (std::vector<int64_t>{64, 160}));
  EXPECT_EQ(matrix.constants.size(), 2u);
  EXPECT_EQ(matrix.constants[0], 0.12248418480157852f);
  EXPECT_EQ(matrix.tensors.size(), 6u);
  EXPECT_FALSE(FindPackedMatrix(*files, "model.norm.weight")->has_value());
  EXPECT_FALSE(FindPackedMatrix(*files, "no.such.weight")->has_value());
}

// Invariant of the format: the codes of golden/bits and the values that bitsandbytes gives them.
TEST_F(PackedMatrixTest, StandsForTheValuesOfBitsandbytes) {
  for (const bool twice : {false, true}) {
    const std::string name = std::string("nf4_tail") + (twice ? "_double" : "");
    auto file = SafetensorsFile::Open(support::GoldenFolder("bits") + "/" + name + ".safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    const auto floats = [&](const std::string& tensor) {
      std::vector<float> values(static_cast<size_t>((*file)->Find(tensor)->elements()));
      EXPECT_TRUE(CopyAsFloat(*(*file)->Find(tensor), values.data()).ok());
      return values;
    };
    PackedMatrix matrix{.format = twice ? Quantization::kNf4Double : Quantization::kNf4,
                        .shape = (*file)->Find("weight")->shape,
                        .codes = (*file)->Find("packed")->data,
                        .scales = (*file)->Find(twice ? "absmax_q" : "absmax")->data,
                        .constants = {},
                        .map = floats("code"),
                        .scale_map = {},
                        .tensors = {}};
    if (twice) {
      matrix.scale_map = floats("absmax_code");
      matrix.constants = floats("absmax_offset");
      for (const float group : floats("absmax_scale")) matrix.constants.push_back(group);
    }
    const std::vector<float> expected = floats("dequantised");
    std::vector<float> values(expected.size());
    CopyAsFloat(matrix, values.data());
    EXPECT_EQ(values, expected) << name;
  }
}

TEST_F(PackedMatrixTest, NamesWhatIsMissingOrOfAnotherFormat) {
  EXPECT_NE(Message(kName + ".absmax", nullptr, {}, {}).find(".absmax\" is missing"),
            std::string::npos);
  const std::vector<uint8_t> few(10);
  EXPECT_NE(Message(kName + ".absmax", &few, ElementType::kU8, {10}).find("has 10 elements of U8"),
            std::string::npos);
  EXPECT_NE(Message(kName + ".quant_state.bitsandbytes__nf4", nullptr, {}, {})
                .find("is not quantised in nf4 or int8"),
            std::string::npos);
  for (const auto& [state, expected] :
       {std::pair("[]", "not a JSON object"),
        {"{\"blocksize\": 128}", "blocksize is not 64"},
        {"{\"blocksize\": 64, \"nested_offset\": 1, \"nested_blocksize\": 64}",
         "nested_blocksize is not 256"},
        {"{\"blocksize\": 64}", "no shape"},
        {"{\"blocksize\": 64, \"shape\": [64]}", "shape has not two"},
        {"{\"blocksize\": 64, \"shape\": [64, -1]}", "shape is not one"},
        {"{\"blocksize\": 64, \"shape\": [4294967296, 4294967297]}", "shape is not one"}}) {
    EXPECT_NE(WithState(state).find(expected), std::string::npos) << WithState(state);
  }
}

// Codes are read in place, so a view with strides would be read in another order.
TEST(StridedMatrixTest, CodesWithStridesAreRefused) {
  const support::ScratchFolder folder;
  std::ofstream(folder.path() + "/pytorch_model.bin") << archive::File({{.name = "m.weight",
                                                                         .storage = "CharStorage",
                                                                         .elements = 6,
                                                                         .shape = {2, 3},
                                                                         .strides = {1, 2}}},
                                                                       "abcdef");
  const auto files = WeightFiles::Open(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  const absl::Status status = FindPackedMatrix(**files, "m.weight").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("is a view with strides"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace coxswain
