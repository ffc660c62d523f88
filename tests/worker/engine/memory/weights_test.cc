// Loading and initialising: what is read, what is refused, and how.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <utility>

#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/files/stacked_files.h"
#include "controller/planner/memory/buffer_table.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/random_init.h"
#include "worker/engine/memory/weights.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace weights_test {
namespace {

class WeightsTest : public testing::Test {
 protected:
  plan::Plan Plan(int64_t lora_rank = 0) const {
    PlanOptions options;
    options.model_path = folder_.path();
    options.lora_rank = lora_rank;
    if (lora_rank > 0) options.init_from = folder_.path();
    return MakePlan(SmallConfig(), options);
  }

  void Write(const std::vector<TensorSource>& tensors,
             const std::string& name = "model.safetensors") const {
    ASSERT_TRUE(WriteSafetensors(folder_.path() + "/" + name, tensors).ok());
  }

  static absl::Status Prepare(const plan::Plan& plan) {
    return Engine::Prepare(plan, 0, "").status();
  }

  void ExpectRefused(const plan::Plan& plan, const std::vector<std::string>& words) const {
    const absl::Status status = Prepare(plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const std::string& word : words) {
      EXPECT_NE(std::string(status.message()).find(word), std::string::npos)
          << word << ": " << status;
    }
    EXPECT_NE(std::string(status.message()).find(folder_.path()), std::string::npos) << status;
  }

  // Base tensors with `name` replaced by `other`, or left out when it is null.
  static std::vector<TensorSource> Replace(std::vector<TensorSource> tensors,
                                           const std::string& name, const TensorSource* other) {
    std::erase_if(tensors, [&](const TensorSource& tensor) { return tensor.name == name; });
    if (other != nullptr) tensors.push_back(*other);
    return tensors;
  }

  const support::ScratchFolder folder_;
};

constexpr const char* kUp = "model.layers.1.mlp.up_proj.weight";

TEST_F(WeightsTest, ConvertsFromBf16AndF16) {
  const plan::Plan plan = Plan();
  for (ElementType dtype : {ElementType::kBF16, ElementType::kF16}) {
    Write(BaseTensors(plan, dtype));
    std::string doing;
    const auto state = MakeState(plan, 0, "", &doing);
    ASSERT_TRUE(state.ok()) << state.status();
    const Tensors written = ReadTensors(folder_.path() + "/model.safetensors");
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      EXPECT_EQ(TrainedValues(**state, i), written.at(plan.parameters[i].name));
    }
  }
}

TEST_F(WeightsTest, IgnoresInverseFrequenciesAndTheHeadOfATiedModel) {
  const plan::Plan plan = Plan();
  std::vector<TensorSource> tensors = BaseTensors(plan);
  tensors.push_back(
      ZeroTensor("model.layers.0.self_attn.rotary_emb.inv_freq", ElementType::kF32, {6}));
  tensors.push_back(ZeroTensor("lm_head.weight", ElementType::kF32, {131, 48}));
  Write(tensors);
  EXPECT_TRUE(Prepare(plan).ok());
}

// Those with a token are the first 125 of 128 rows of the file: two tokens take rows that are
// free, five make both tensors grow.
TEST_F(WeightsTest, RowsOfAddedTokensAreTheMeanOfTheOthers) {
  model::ModelConfig config = SmallConfig();
  config.tie_embeddings = false;
  config.vocab_size = 128;
  PlanOptions options;
  options.model_path = folder_.path();
  Write(BaseTensors(MakePlan(config, options), ElementType::kF32));
  const Tensors written = ReadTensors(folder_.path() + "/model.safetensors");
  for (const int64_t count : {2, 5}) {
    config.added_tokens = {.count = count, .known = 125, .base_rows = 128};
    config.vocab_size = std::max<int64_t>(128, 125 + count);
    const plan::Plan plan = MakePlan(config, options);
    std::string doing;
    const auto state = MakeState(plan, 0, "", &doing);
    ASSERT_TRUE(state.ok()) << state.status();
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      const model::Parameter& parameter = plan.parameters[i];
      const std::vector<float>& file = written.at(parameter.name);
      const std::vector<float> values = TrainedValues(**state, i);
      const bool grows = model::IsEmbedding(parameter) || model::IsHead(parameter);
      if (!grows) {
        EXPECT_EQ(values, file);
        continue;
      }
      ASSERT_EQ(parameter.rows, config.vocab_size);
      for (int64_t row = 0; row < parameter.rows; ++row) {
        for (int64_t j = 0; j < parameter.cols; ++j) {
          double expected = 0;
          const bool added = row >= 125 && row < 125 + count;
          for (int64_t k = added ? 0 : row; k < (added ? 125 : row + 1); ++k) {
            expected += file[static_cast<size_t>(k * parameter.cols + j)];
          }
          if (added) expected /= 125;
          EXPECT_EQ(values[static_cast<size_t>(row * parameter.cols + j)],
                    static_cast<float>(expected))
              << parameter.name << " " << row;
        }
      }
    }
  }
  config.added_tokens.base_rows = 127;
  ExpectRefused(MakePlan(config, options), {"model.embed_tokens.weight", "[128, 48]", "[127, 48]"});
}

TEST_F(WeightsTest, MissingTensor) {
  Write(Replace(BaseTensors(Plan()), kUp, nullptr));
  ExpectRefused(Plan(), {kUp, "missing", "[72, 48]"});
}

TEST_F(WeightsTest, OtherShape) {
  const TensorSource other = ZeroTensor(kUp, ElementType::kF32, {48, 72});
  Write(Replace(BaseTensors(Plan()), kUp, &other));
  ExpectRefused(Plan(), {kUp, "[48, 72]", "[72, 48]"});
}

TEST_F(WeightsTest, OtherDtype) {
  const TensorSource other = ZeroTensor(kUp, ElementType::kI32, {72, 48});
  Write(Replace(BaseTensors(Plan()), kUp, &other));
  ExpectRefused(Plan(), {kUp, "I32"});
}

TEST_F(WeightsTest, TensorWithoutPlace) {
  std::vector<TensorSource> tensors = BaseTensors(Plan());
  tensors.push_back(ZeroTensor("model.layers.3.mlp.up_proj.weight", ElementType::kF32, {72, 48}));
  Write(tensors);
  ExpectRefused(Plan(), {"model.layers.3.mlp.up_proj.weight", "no place"});
}

TEST_F(WeightsTest, TruncatedFile) {
  Write(BaseTensors(Plan()));
  const std::string path = folder_.path() + "/model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  ExpectRefused(Plan(), {});
}

TEST_F(WeightsTest, NoWeights) {
  EXPECT_EQ(Prepare(Plan()).code(), absl::StatusCode::kNotFound) << Prepare(Plan());
}

TEST_F(WeightsTest, AdapterIsReadAndChecked) {
  const plan::Plan plan = Plan(4);
  Write(BaseTensors(plan));
  EXPECT_EQ(Prepare(plan).code(), absl::StatusCode::kNotFound) << Prepare(plan);
  Write(AdapterTensors(plan), "adapter_model.safetensors");
  EXPECT_TRUE(Prepare(plan).ok());
  const std::string name = "base_model.model.model.layers.2.mlp.down_proj.lora_B.weight";
  Write(Replace(AdapterTensors(plan), name, nullptr), "adapter_model.safetensors");
  ExpectRefused(plan, {name, "missing"});
  Write(AdapterTensors(Plan(3)), "adapter_model.safetensors");
  ExpectRefused(plan, {"lora_A", "[3, 48]", "[4, 48]"});
  std::vector<TensorSource> more = AdapterTensors(plan);
  more.push_back(ZeroTensor("base_model.model.lm_head.lora_A.weight", ElementType::kF32, {4, 48}));
  Write(more, "adapter_model.safetensors");
  ExpectRefused(plan, {"base_model.model.lm_head.lora_A.weight"});
}

// What PEFT's golden adapter has as stacks, again by expert: gate and up with the A of both.
class ExpertAdapterTest : public testing::Test {
 protected:
  ExpertAdapterTest() : golden_(LoadGoldenCase("moe/qwen3_moe_expert_lora")) {
    golden_.plan.lora.init_from = folder_.path();
    for (const model::Parameter& parameter : golden_.plan.parameters) {
      if (!model::IsAdapter(parameter)) continue;
      const std::vector<float>& values = golden_.initial.at(parameter.name);
      if (parameter.kind != model::Kind::kExperts) {
        tensors_[parameter.name] = {{parameter.rows, parameter.cols}, values};
        continue;
      }
      AddByExpert(parameter, values);
    }
  }

  void AddByExpert(const model::Parameter& p, const std::vector<float>& values) {
    model::Parameter base = p;
    base.part = model::Part::kBase;
    const bool a = model::IsLoraA(p);
    const int64_t rows = p.rows / p.batch;
    for (model::StackedFile linear : model::StackedFilesOf(golden_.plan.architecture, base)) {
      linear.cols = p.cols;
      for (int64_t expert = 0; expert < p.batch; ++expert) {
        const float* matrix = values.data() + expert * rows * p.cols;
        std::vector<float> part(matrix, matrix + (a ? rows : linear.rows) * p.cols);
        if (!a) model::ToFileMatrix(linear, matrix, part.data());
        tensors_[model::SingleExpertKey(linear, expert, p.part)] = {
            {a ? rows : linear.rows, p.cols}, part};
      }
    }
  }

  absl::StatusOr<std::unique_ptr<State>> Load() {
    std::vector<TensorSource> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back(
          {name, ElementType::kF32, tensor.first, [&values = tensor.second](uint8_t* out) {
             std::memcpy(out, values.data(), values.size() * sizeof(float));
             return absl::OkStatus();
           }});
    }
    EXPECT_TRUE(WriteSafetensors(folder_.path() + "/adapter_model.safetensors", sources).ok());
    std::string doing;
    return MakeState(golden_.plan, 0, "", &doing);
  }

  support::ScratchFolder folder_;
  GoldenCase golden_;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors_;
};

TEST_F(ExpertAdapterTest, IsReadByExpertToTheBit) {
  const auto state = Load();
  ASSERT_TRUE(state.ok()) << state.status();
  int stacks = 0;
  for (size_t i = 0; i < golden_.plan.parameters.size(); ++i) {
    const model::Parameter& parameter = golden_.plan.parameters[i];
    if (!model::IsAdapter(parameter)) continue;
    stacks += parameter.kind == model::Kind::kExperts ? 1 : 0;
    EXPECT_EQ(TrainedValues(**state, i), golden_.initial.at(parameter.name)) << parameter.name;
  }
  EXPECT_EQ(stacks, 2 * 2 * 2);
}

TEST_F(ExpertAdapterTest, TwoAsOfOneStackAreRefused) {
  const std::string expert = "base_model.model.model.layers.1.mlp.experts.3.";
  tensors_.at(expert + "up_proj.lora_A.weight").second[5] += 1;
  const std::string said(Load().status().message());
  EXPECT_NE(said.find(expert + "up_proj.lora_A.weight\" differ"), std::string::npos) << said;
  EXPECT_NE(said.find("rank 8 in place of 4"), std::string::npos) << said;
}

TEST_F(ExpertAdapterTest, AnExpertThatIsMissingIsNamed) {
  const std::string name = "base_model.model.model.layers.1.mlp.experts.7.down_proj.lora_B.weight";
  tensors_.erase(name);
  const std::string said(Load().status().message());
  EXPECT_NE(said.find(name + "\" is missing"), std::string::npos) << said;
}

struct Drawn {
  model::Kind kind{};
  int32_t tensor = 0;
  model::Part part = model::Part::kBase;
};
constexpr Drawn kDrawnUp = {model::Kind::kLinear, 5}, kDrawnGate = {model::Kind::kLinear, 4};
constexpr Drawn kDrawnA = {model::Kind::kLinear, 1, model::Part::kLoraA};
constexpr Drawn kDrawnB = {model::Kind::kLinear, 1, model::Part::kLoraB};

std::vector<float> Init(uint64_t seed, const Drawn& drawn, int64_t rows, int64_t cols) {
  model::Parameter parameter;
  parameter.kind = drawn.kind;
  parameter.tensor = drawn.tensor;
  parameter.part = drawn.part;
  parameter.layer = 1;
  parameter.rows = rows;
  parameter.cols = cols;
  kernels::RandomFillArgs fill = RandomInit(seed, parameter, model::ModelConfig());
  fill.count = rows * cols;
  void* memory = kernels::AllocateMemory(fill.count * 4);
  fill.out = memory;
  kernels::RandomFill(fill, nullptr);
  std::vector<float> values = ReadFloats(memory, kernels::DType::kFloat32, fill.count);
  kernels::FreeMemory(memory);
  return values;
}

// What a file was trained with in full and this job does not, and the other way round.
TEST_F(WeightsTest, ModulesTrainedInFullBesideTheAdapter) {
  const plan::Plan bare = Plan(4);
  Write(BaseTensors(bare, ElementType::kF32));
  PlanOptions options;
  options.model_path = options.init_from = folder_.path();
  options.lora_rank = 4;
  options.modules_to_save = {"lm_head"};
  const plan::Plan plan = MakePlan(SmallConfig(), options);
  const auto file = [&](const std::vector<std::string>& saved, float embedding, float head) {
    std::vector<TensorSource> tensors = AdapterTensors(bare);
    for (const std::string& name : saved) {
      const float value = name.find("lm_head") == std::string::npos ? embedding : head;
      tensors.push_back(
          {"base_model.model." + name, ElementType::kF32, {131, 48}, [value](uint8_t* out) {
             std::fill_n(reinterpret_cast<float*>(out), 131 * 48, value);
             return absl::OkStatus();
           }});
    }
    Write(tensors, "adapter_model.safetensors");
  };
  const std::vector<std::string> both = {"model.embed_tokens.weight", "lm_head.weight"};
  const auto embedding = [&] {
    std::string doing;
    const auto state = MakeState(plan, 0, "", &doing);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? TrainedValues(**state, 0) : std::vector<float>();
  };
  file({}, 0, 0);
  EXPECT_EQ(embedding(), ReadTensors(folder_.path() + "/model.safetensors").at(both[0]));
  file(both, 0.25f, 0.25f);
  EXPECT_EQ(embedding(), std::vector<float>(131 * 48, 0.25f));
  ExpectRefused(bare, {"base_model.model.model.embed_tokens.weight", "lora.modules_to_save"});
  file(both, 0.25f, 0.5f);
  ExpectRefused(plan, {"one matrix in this model", "lm_head.weight"});
  file({both[0]}, 0.25f, 0.25f);
  ExpectRefused(plan, {"one matrix in this model"});
}

TEST(RandomInitTest, MatricesAreNormal) {
  const std::vector<float> values = Init(1, kDrawnUp, 301, 401);
  double sum = 0, squares = 0, fourth = 0;
  for (double x : values) {
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  // Standard errors of mean, deviation and kurtosis for n draws: s/sqrt(n), s/sqrt(2n), sqrt(24/n).
  const double n = static_cast<double>(values.size()), deviation = std::sqrt(squares / n);
  EXPECT_NEAR(sum / n, 0.0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(deviation, 0.02, 5 * 0.02 / std::sqrt(2 * n));
  EXPECT_NEAR(fourth / n / std::pow(deviation, 4), 3.0, 5 * std::sqrt(24 / n));
}

TEST(RandomInitTest, LoraAIsKaimingUniformAndBZero) {
  const std::vector<float> a = Init(1, kDrawnA, 16, 400);
  double squares = 0;
  for (double x : a) {
    EXPECT_LE(std::abs(x), 1.0 / 20);
    squares += x * x;
  }
  // Variance of the uniform distribution: bound^2 / 3, with a standard error of 2 % here.
  EXPECT_NEAR(squares / static_cast<double>(a.size()) * 3 * 400, 1.0, 0.06);
  EXPECT_EQ(Init(1, kDrawnB, 5, 3), std::vector<float>(15, 0.0f));
  EXPECT_EQ(Init(1, {model::Kind::kBias}, 5, 1), std::vector<float>(5, 0.0f));
  EXPECT_EQ(Init(1, {model::Kind::kNorm}, 5, 1), std::vector<float>(5, 1.0f));
}

TEST(RandomInitTest, DependsOnSeedAndTensorOnly) {
  EXPECT_EQ(Init(1, kDrawnUp, 9, 7), Init(1, kDrawnUp, 9, 7));
  EXPECT_NE(Init(1, kDrawnUp, 9, 7), Init(2, kDrawnUp, 9, 7));
  EXPECT_NE(Init(1, kDrawnUp, 9, 7), Init(1, kDrawnGate, 9, 7));
}

// Before its ranks have met: what products are tuned on, under ZeRO 3 with an adapter and under
// ZeRO 1 without.
class AbsentWeightsTest : public testing::TestWithParam<PlanOptions> {
 protected:
  static std::unique_ptr<State> Prepared(PlanOptions options, int32_t shard) {
    options.init = "random";
    options.shard = shard;
    if (shard == 1) options.zero = 0;
    plan::Plan plan = MakePlan(SmallConfig(), options);
    if (shard > 1) plan.device = DeviceKind::kCuda;  // only such engines warm up
    plan.buffers = planner::BufferTable(plan);
    std::string doing;
    auto state = MakeState(plan, 0, "", &doing);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *std::move(state) : nullptr;
  }
};

TEST_P(AbsentWeightsTest, AreLikeATrainedModels) {
  const auto one = Prepared(GetParam(), 1), part = Prepared(GetParam(), 2);
  ASSERT_TRUE(one != nullptr && part != nullptr);
  const ParameterStore store(part->plan, part->layout, part->buffers);
  const ParameterStore whole(one->plan, one->layout, one->buffers);
  for (size_t i = 0; i < part->plan.parameters.size(); ++i) {
    const model::Parameter& parameter = part->plan.parameters[i];
    const Values read = store.Compute(i);
    double squares = 0;
    for (const float x : ReadFloats(read.data, read.dtype, read.elements)) {
      squares += static_cast<double>(x) * x;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(read.elements));
    const bool zero = RandomInit(0, parameter, model::ModelConfig()).value == 0.0 &&
                      !model::IsMagnitude(parameter);
    if (zero) {
      EXPECT_EQ(deviation, 0.0) << parameter.name;
    } else if (parameter.cols == 1) {
      EXPECT_NEAR(deviation, 1.0, 0.75) << parameter.name;
    } else if (!model::IsAdapter(parameter)) {
      EXPECT_NEAR(deviation, 0.02, 0.002) << parameter.name;
    }
    // What is this rank's own stays.
    const Values mine = store.Weights(i), all = whole.Weights(i);
    const std::vector<float> expected = ReadFloats(all.data, all.dtype, all.elements);
    const std::vector<float> found = ReadFloats(mine.data, mine.dtype, mine.elements);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + mine.first))
        << parameter.name;
  }
}

PlanOptions OfStage(int32_t zero, int64_t dora_rank) {
  PlanOptions options;
  options.zero = zero;
  options.lora_rank = dora_rank;
  options.dora = dora_rank > 0;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Zero, AbsentWeightsTest, testing::Values(OfStage(1, 0), OfStage(3, 4)));

}  // namespace
}  // namespace weights_test
}  // namespace coxswain::engine
