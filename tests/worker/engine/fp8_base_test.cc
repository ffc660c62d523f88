// A base in FP8 blocks trains as the base that they stand for.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/files/stacked_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace fp8_base_test {
namespace {

using Json = nlohmann::json;

// Most extents are no multiples of a block.
Json Deepseek() {
  return {{"architectures", {"DeepseekV3ForCausalLM"}},
          {"dtype", "bfloat16"},
          {"vocab_size", 131},
          {"hidden_size", 136},
          {"intermediate_size", 150},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"q_lora_rank", 24},
          {"kv_lora_rank", 129},
          {"qk_nope_head_dim", 8},
          {"qk_rope_head_dim", 8},
          {"v_head_dim", 8},
          {"n_routed_experts", 4},
          {"n_group", 1},
          {"topk_group", 1},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 20},
          {"first_k_dense_replace", 1}};
}

template <typename T>
TensorSource SourceOf(const std::string& name, ElementType dtype, const std::vector<int64_t>& shape,
                      const std::vector<T>& values) {
  return {name, dtype, shape, [values](uint8_t* out) {
            std::memcpy(out, values.data(), values.size() * sizeof(T));
            return absl::OkStatus();
          }};
}

// Codes of E4M3 and what they stand for, before the scale.
constexpr std::pair<uint8_t, float> kCodes[] = {
    {0x38, 1.0f}, {0xC4, -3.0f}, {0x31, 0.5625f}, {0xB9, -1.125f}, {0x81, -0x1p-9f}};

// The files of a base in blocks, and of the one that they stand for.
struct Twins {
  std::vector<TensorSource> blocks, floats;

  void AddMatrix(const std::string& name, const std::vector<int64_t>& shape) {
    const int64_t cols = shape[1], col_blocks = (cols + 127) / 128;
    const std::vector<int64_t> grid = {(shape[0] + 127) / 128, col_blocks};
    std::vector<float> scales(static_cast<size_t>(grid[0] * grid[1])), values;
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.013f * static_cast<float>(i + 3);
    std::vector<uint8_t> codes;
    for (int64_t i = 0; i < shape[0] * cols; ++i) {
      const auto& [code, value] = kCodes[static_cast<size_t>(i * 7 % 31 % 5)];
      const int64_t block = i / cols / 128 * col_blocks + i % cols / 128;
      codes.push_back(code);
      values.push_back(value * scales[static_cast<size_t>(block)]);
    }
    blocks.push_back(SourceOf(name, ElementType::kF8E4M3, shape, codes));
    blocks.push_back(SourceOf(name + "_scale_inv", ElementType::kF32, grid, scales));
    floats.push_back(SourceOf(name, ElementType::kF32, shape, values));
  }

  void AddOther(const model::Parameter& parameter) {
    blocks.push_back(RandomTensor(parameter));
    floats.push_back(RandomTensor(parameter));
  }
};

class Fp8BaseTest : public testing::Test {
 protected:
  Fp8BaseTest() {
    twin_.Write("config.json", Deepseek().dump());
    Json in_blocks = Deepseek();
    in_blocks["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
    base_.Write("config.json", in_blocks.dump());
    const plan::Plan plan = Plan(twin_, /*lora_rank=*/0, /*shard=*/1);
    for (const model::Parameter& parameter : plan.parameters) {
      const auto stack = model::StackedFilesOf(plan.architecture, parameter);
      if (stack.empty() && model::IsLinear(parameter)) {
        twins_.AddMatrix(parameter.name, {parameter.rows, parameter.cols});
      } else if (stack.empty()) {
        twins_.AddOther(parameter);
      }
      for (const model::StackedFile& file : stack) {
        for (int64_t matrix = 0; matrix < parameter.batch; ++matrix) {
          twins_.AddMatrix(file.NameOf(matrix), file.shape());
        }
      }
    }
    EXPECT_TRUE(WriteSafetensors(base_.path() + "/model.safetensors", twins_.blocks).ok());
    EXPECT_TRUE(WriteSafetensors(twin_.path() + "/model.safetensors", twins_.floats).ok());
  }

  static plan::Plan Plan(const support::ScratchFolder& model, int64_t lora_rank, int32_t shard) {
    PlanOptions options;
    options.model_path = model.path();
    options.lora_rank = lora_rank;
    options.sequence_len = 40;
    options.shard = shard;
    options.zero = shard > 1 ? 3 : 0;
    return MakePlan(options);
  }

  static Ranks Train(const plan::Plan& plan) {
    Ranks stats(static_cast<size_t>(plan.world_size()));
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 3; ++step) {
        TrainStep train = MakeStep(step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}}, 131, 7));
        train.bins = PartOf(plan, train.bins, rank);
        const auto one = engine.Train(train);
        ASSERT_TRUE(one.ok()) << one.status();
        stats[static_cast<size_t>(rank)].push_back(*one);
      }
    });
    return stats;
  }

  Twins twins_;
  const support::ScratchFolder base_, twin_;
};

// Ranks read parts that begin and end inside rows.
TEST_F(Fp8BaseTest, TrainsWithTheBitsOfWhatItStandsFor) {
  for (const auto& [rank, shard] : {std::pair<int64_t, int32_t>{0, 1}, {0, 3}, {2, 1}}) {
    const Ranks ours = Train(Plan(base_, rank, shard)), theirs = Train(Plan(twin_, rank, shard));
    ASSERT_EQ(ours.size(), static_cast<size_t>(shard));
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i].size(), 3u);
      ASSERT_EQ(theirs[i].size(), 3u);
      for (size_t step = 0; step < 3; ++step) {
        EXPECT_EQ(ours[i][step].global_loss_sum, theirs[i][step].global_loss_sum) << step;
        EXPECT_EQ(ours[i][step].grad_norm, theirs[i][step].grad_norm) << step;
      }
    }
  }
}

TEST_F(Fp8BaseTest, NamesScalesThatAreMissing) {
  const std::string scales = "model.layers.0.self_attn.o_proj.weight_scale_inv";
  std::vector<TensorSource> less = twins_.blocks;
  std::erase_if(less, [&](const TensorSource& tensor) { return tensor.name == scales; });
  ASSERT_TRUE(WriteSafetensors(base_.path() + "/model.safetensors", less).ok());
  const absl::Status status = Engine::Prepare(Plan(base_, 0, 1), 0, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("\"" + scales + "\" is missing"), std::string::npos)
      << status;
}

}  // namespace
}  // namespace fp8_base_test
}  // namespace coxswain::engine
