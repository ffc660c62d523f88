#include "common/model/files/file_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/model/family.h"
#include "common/model/parameter_table.h"

namespace coxswain::model {
namespace {

// 4 query heads, 2 kv heads of 2 rows: the file holds q0 q1 k0 v0 q2 q3 k1 v1.
ModelConfig Grouped() {
  ModelConfig config;
  config.architecture = "InternLM2ForCausalLM";
  config.vocab_size = 8;
  config.hidden_size = 4;
  config.intermediate_size = 6;
  config.num_layers = 1;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 2;
  config.layer_windows = {0};
  return config;
}

Parameter Find(const std::vector<Parameter>& table, const std::string& part_of_name) {
  for (const Parameter& parameter : table) {
    if (parameter.name.find(part_of_name) != std::string::npos) return parameter;
  }
  ADD_FAILURE() << "no parameter " << part_of_name;
  return {};
}

Architecture Blocks() { return ArchitectureOf(Grouped()); }

TEST(FileRowsTest, EachKvHeadsQueriesKeyAndValueLieTogetherInTheFile) {
  const auto table = WithLora(BaseParameterTable(Grouped()), Grouped(), {3, {"wqkv"}, true});
  ASSERT_TRUE(table.ok()) << table.status();
  const std::vector<float> file = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const std::vector<float> memory = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  for (const char* name : {"wqkv.weight", "wqkv.lora_B", "wqkv.lora_magnitude"}) {
    const auto rows = FileRows(Blocks(), Find(*table, name));
    std::vector<float> values = file;
    ToMemoryOrder(rows, 1, &values);
    EXPECT_EQ(values, memory);
    ToFileOrder(rows, 1, &values);
    EXPECT_EQ(values, file);
  }
}

TEST(FileRowsTest, RowsMoveWhole) {
  const auto rows = FileRows(Blocks(), Find(BaseParameterTable(Grouped()), "wqkv.weight"));
  std::vector<float> values(16 * 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  ToMemoryOrder(rows, 3, &values);
  EXPECT_EQ(std::vector<float>(values.begin() + 12, values.begin() + 15),
            (std::vector<float>{24, 25, 26}));  // row 4 of memory is row 8 of the file
}

TEST(FileRowsTest, OtherTensorsLieAsInTheFile) {
  const auto table = WithLora(BaseParameterTable(Grouped()), Grouped(), {3, {"all-linear"}, false});
  ASSERT_TRUE(table.ok()) << table.status();
  for (const char* name :
       {"wo.weight", "w1.weight", "tok_embeddings", "output.weight", "wqkv.lora_A", "w2.lora_B"}) {
    EXPECT_TRUE(FileRows(Blocks(), Find(*table, name)).empty());
  }
}

}  // namespace
}  // namespace coxswain::model
