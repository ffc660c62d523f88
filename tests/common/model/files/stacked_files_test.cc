#include "common/model/files/stacked_files.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace coxswain::model {
namespace stacked_files_test {
namespace {

// Two experts whose matrix in memory is [4, 3]: two rows of gate, then two of up.
Architecture StackOf(std::vector<FileMember> members) {
  Architecture model;
  model.outside.layers = "model.layers.";
  model.blocks.push_back({.tensors = {{.name = "mlp.experts.gate_up_proj",
                                       .kind = Kind::kExperts,
                                       .rows = 4,
                                       .cols = 3,
                                       .batch = 2,
                                       .members = std::move(members)}},
                          .ops = {}});
  return model;
}

Parameter TheStack() {
  Parameter parameter;
  parameter.kind = Kind::kExperts;
  parameter.layer = 0;
  parameter.tensor = 0;
  parameter.batch = 2;
  parameter.rows = 8;
  parameter.cols = 3;
  return parameter;
}

std::vector<float> Counted(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(StackedFilesTest, ATensorOfEachExpertFillsItsRows) {
  const Architecture model = StackOf({{.name = "mlp.experts.*.w1.weight", .row = 0, .rows = 2},
                                      {.name = "mlp.experts.*.w3.weight", .row = 2, .rows = 2}});
  const std::vector<StackedFile> files = StackedFilesOf(model, TheStack());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files[1].one_each());
  EXPECT_EQ(files[1].NameOf(1), "model.layers.0.mlp.experts.1.w3.weight");
  EXPECT_EQ(files[1].shape(), (std::vector<int64_t>{2, 3}));
  std::vector<float> matrix(12, -1.0f);
  ToMemoryMatrix(files[1], Counted(6).data(), matrix.data());
  EXPECT_EQ(matrix, (std::vector<float>{-1, -1, -1, -1, -1, -1, 0, 1, 2, 3, 4, 5}));
  std::vector<float> file(6);
  ToFileMatrix(files[1], matrix.data(), file.data());
  EXPECT_EQ(file, Counted(6));
}

// As gpt-oss has them: [experts, in, out], columns of gate and up in turns.
TEST(StackedFilesTest, OneTransposedTensorHoldsGateAndUpInTurns) {
  const std::string name = "mlp.experts.gate_up_proj";
  const Architecture model = StackOf({{name, 0, 2, /*first=*/0, /*step=*/2, /*transposed=*/true},
                                      {name, 2, 2, /*first=*/1, /*step=*/2, /*transposed=*/true}});
  const std::vector<StackedFile> files = StackedFilesOf(model, TheStack());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_FALSE(files[0].one_each());
  EXPECT_EQ(files[0].NameOf(1), "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(files[0].shape(), (std::vector<int64_t>{2, 3, 4}));
  std::vector<float> matrix(12);
  ToMemoryMatrix(files[0], Counted(12).data(), matrix.data());
  // Row i of memory is column 0, 2, 1, 3 of the file.
  EXPECT_EQ(matrix, (std::vector<float>{0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11}));
  std::vector<float> file(12);
  ToFileMatrix(files[0], matrix.data(), file.data());
  EXPECT_EQ(file, Counted(12));
}

TEST(StackedFilesTest, ByOutputsTheRowsOfATransposedFileAreThoseOfTheStack) {
  const std::string name = "mlp.experts.gate_up_proj";
  const Architecture model = StackOf({{name, 0, 2, /*first=*/0, /*step=*/2, /*transposed=*/true},
                                      {name, 2, 2, /*first=*/1, /*step=*/2, /*transposed=*/true}});
  const StackedFile file = ByOutputs(StackedFilesOf(model, TheStack()).front());
  EXPECT_EQ(file.shape(), (std::vector<int64_t>{2, 4, 3}));
  std::vector<float> matrix(12);
  ToMemoryMatrix(file, Counted(12).data(), matrix.data());
  EXPECT_EQ(matrix, (std::vector<float>{0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11}));
  EXPECT_EQ(ByOutputs(file).shape(), file.shape());
}

// A bias of each expert is a row of one tensor.
TEST(StackedFilesTest, AStackOfVectorsIsAMatrix) {
  const std::string name = "mlp.experts.gate_up_proj_bias";
  Architecture model =
      StackOf({{name, 0, 2, /*first=*/0, /*step=*/2}, {name, 2, 2, /*first=*/1, /*step=*/2}});
  TensorSpec& bias = model.blocks[0].tensors[0];
  bias.kind = Kind::kExpertBias;
  bias.cols = 1;
  Parameter parameter = TheStack();
  parameter.kind = bias.kind;
  parameter.cols = 1;
  const StackedFile file = StackedFilesOf(model, parameter).front();
  EXPECT_EQ(file.shape(), (std::vector<int64_t>{2, 4}));
  std::vector<float> vector(4);
  ToMemoryMatrix(file, Counted(4).data(), vector.data());
  EXPECT_EQ(vector, (std::vector<float>{0, 2, 1, 3}));
}

TEST(StackedFilesTest, OtherTensorsHaveNone) {
  Parameter adapter = TheStack();
  const Architecture model = StackOf({{.name = "mlp.experts.*.w1.weight", .row = 0, .rows = 4}});
  EXPECT_EQ(StackedFilesOf(model, adapter).size(), 1u);
  adapter.part = Part::kLoraA;
  EXPECT_TRUE(StackedFilesOf(model, adapter).empty());
  Parameter embedding;
  embedding.tensor = kEmbeddingTensor;
  EXPECT_TRUE(StackedFilesOf(model, embedding).empty());
}

}  // namespace
}  // namespace stacked_files_test
}  // namespace coxswain::model
