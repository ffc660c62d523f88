// A merge into a base whose files are quantised: into what they stand for.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/files/safetensors/safetensors_writer.h"
#include "common/files/weights/packed_matrix.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "controller/export/export_model.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::exports {
namespace {

constexpr float kA = 0.5f, kB = 0.25f;
constexpr double kScale = 2.0;

// A job with an adapter of down_proj on the base in `model_path`, as it is planned.
class QuantizedBaseTest : public testing::Test {
 protected:
  plan::Plan PlanOn(const std::string& model_path) {
    plan::Plan plan;
    plan.model_path = model_path;
    plan.model = *model::ReadModelConfig(plan.model_path);
    plan.quantization = plan.model.quantization;
    plan.architecture = model::ArchitectureOf(plan.model);
    plan.parameters = *model::WithLora(model::BaseParameterTable(plan.architecture),
                                       plan.architecture, {2, {"down_proj"}, false});
    plan.lora = {.rank = 2, .scale = kScale, .dropout = 0, .init_from = "", .dora = false};
    for (model::Parameter& parameter : plan.parameters) {
      if (model::IsAdapter(parameter)) parameter.group = 0;
    }
    return plan;
  }

  // Writes the adapter that `plan` trains, and the model merged with it into out_.
  absl::Status Merge(const plan::Plan& plan) {
    std::vector<TensorSource> adapter;
    for (const model::Parameter& parameter : plan.parameters) {
      if (!model::IsAdapter(parameter)) continue;
      const float value = model::IsLoraA(parameter) ? kA : kB;
      adapter.push_back({parameter.name,
                         ElementType::kF32,
                         {parameter.rows, parameter.cols},
                         [value, n = parameter.elements()](uint8_t* out) {
                           std::fill_n(reinterpret_cast<float*>(out), n, value);
                           return absl::OkStatus();
                         }});
    }
    EXPECT_TRUE(WriteSafetensors(folder_.path() + "/rank-0.safetensors", adapter).ok());
    const auto checkpoint = CheckpointTensors::Open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    config::JobSpec job;
    job.export_dtype = "source";  // float32, as config.json names it
    job.export_max_shard_bytes = int64_t{1} << 30;
    std::filesystem::create_directories(out_);
    return WriteModel(job, plan, *checkpoint, out_);
  }

  const support::ScratchFolder folder_;
  const std::string out_ = folder_.path() + "/model";
};

TEST_F(QuantizedBaseTest, MergesIntoWhatTheFilesStandFor) {
  const plan::Plan plan = PlanOn(support::GoldenFolder("llama_qlora"));
  EXPECT_EQ(plan.model.quantization, Quantization::kNf4Double);
  const absl::Status status = Merge(plan);
  ASSERT_TRUE(status.ok()) << status;

  const auto config = nlohmann::json::parse(std::ifstream(out_ + "/config.json"));
  EXPECT_FALSE(config.contains("quantization_config"));
  const auto base = WeightFiles::Open(plan.model_path);
  const auto merged = WeightFiles::Open(out_);
  ASSERT_TRUE(merged.ok()) << merged.status();
  size_t tensors = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (model::IsAdapter(parameter)) continue;
    ++tensors;
    const TensorInfo* got = (*merged)->Find(parameter.name);
    ASSERT_NE(got, nullptr) << parameter.name;
    EXPECT_EQ(got->elements(), parameter.elements()) << parameter.name;
    const auto packed = FindPackedMatrix(**base, parameter.name);
    ASSERT_TRUE(packed.ok());
    if (!packed->has_value()) continue;
    std::vector<float> values(static_cast<size_t>(parameter.elements())), expected(values.size());
    ASSERT_TRUE(CopyAsFloat(*got, values.data()).ok());
    CopyAsFloat(**packed, expected.data());
    const bool adapted = parameter.name.find("down_proj") != std::string::npos;
    for (float& value : expected) value += adapted ? static_cast<float>(kScale) * 2 * kA * kB : 0;
    EXPECT_EQ(values, expected) << parameter.name;
  }
  EXPECT_EQ((*merged)->tensors().size(), tensors);
}

// The files of another model came to lie in the base's place while the job ran: quantised ones, or
// plain ones. Merged with them, an adapter would reach beyond its tensors.
TEST_F(QuantizedBaseTest, FilesReplacedSinceTheJobWasPlannedAreNamed) {
  namespace fs = std::filesystem;
  for (const char* other : {"llama_qlora", "llama_full"}) {
    const std::string base = folder_.path() + "/base-" + other;
    fs::copy(support::GoldenFolder("llama_qlora"), base, fs::copy_options::recursive);
    auto config = nlohmann::json::parse(std::ifstream(base + "/config.json"));
    config["intermediate_size"] = config["intermediate_size"].get<int64_t>() + 64;
    std::ofstream(base + "/config.json") << config;
    const plan::Plan plan = PlanOn(base);  // of the model that lay there
    fs::remove_all(base);
    fs::copy(support::GoldenFolder(other), base, fs::copy_options::recursive);
    const absl::Status status = Merge(plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    const int64_t planned = plan.model.intermediate_size, cols = plan.model.hidden_size;
    EXPECT_NE(status.message().find(base +
                                    ": tensor \"model.layers.0.mlp.gate_proj.weight\" has "
                                    "shape " +
                                    ShapeText({planned - 64, cols}) +
                                    ", the job was planned with " + ShapeText({planned, cols}) +
                                    "; put the model's files back, the checkpoint stays"),
              std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace coxswain::exports
