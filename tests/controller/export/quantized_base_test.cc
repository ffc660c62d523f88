// A merge into a base whose files are quantised: into what they stand for.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/files/packed_matrix.h"
#include "common/files/safetensors_writer.h"
#include "common/model/parameter_table.h"
#include "common/model/read_model_config.h"
#include "controller/export/export_model.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::exports {
namespace {

constexpr float kA = 0.5f, kB = 0.25f;
constexpr double kScale = 2.0;

TEST(QuantizedBaseTest, MergesIntoWhatTheFilesStandFor) {
  const support::ScratchFolder folder;
  plan::Plan plan;
  plan.model_path = support::GoldenFolder("llama_qlora");
  plan.model = *model::ReadModelConfig(plan.model_path);
  EXPECT_EQ(plan.model.quantization, "nf4_double");
  plan.quantization = plan.model.quantization;
  plan.parameters = *model::WithLora(model::BaseParameterTable(plan.model), plan.model,
                                     {2, {"down_proj"}, false});
  plan.lora = {.rank = 2, .scale = kScale, .dropout = 0, .init_from = "", .dora = false};
  std::vector<TensorSource> adapter;
  for (model::Parameter& parameter : plan.parameters) {
    if (!model::IsAdapter(parameter.role)) continue;
    parameter.group = 0;
    const float value = model::IsLoraA(parameter.role) ? kA : kB;
    adapter.push_back({parameter.name,
                       DType::kF32,
                       {parameter.rows, parameter.cols},
                       [value, n = parameter.elements()](uint8_t* out) {
                         std::fill_n(reinterpret_cast<float*>(out), n, value);
                         return absl::OkStatus();
                       }});
  }
  ASSERT_TRUE(WriteSafetensors(folder.path() + "/rank-0.safetensors", adapter).ok());
  const auto checkpoint = CheckpointTensors::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  config::JobSpec job;
  job.export_dtype = "source";  // float32, as config.json names it
  job.export_max_shard_bytes = int64_t{1} << 30;
  const std::string out = folder.path() + "/model";
  std::filesystem::create_directories(out);
  ASSERT_TRUE(WriteModel(job, plan, *checkpoint, out).ok());

  const auto config = nlohmann::json::parse(std::ifstream(out + "/config.json"));
  EXPECT_FALSE(config.contains("quantization_config"));
  const auto base = WeightFiles::Open(plan.model_path);
  const auto merged = WeightFiles::Open(out);
  ASSERT_TRUE(merged.ok()) << merged.status();
  size_t tensors = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (model::IsAdapter(parameter.role)) continue;
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
    const bool adapted = parameter.role == model::Role::kDown;
    for (float& value : expected) value += adapted ? static_cast<float>(kScale) * 2 * kA * kB : 0;
    EXPECT_EQ(values, expected) << parameter.name;
  }
  EXPECT_EQ((*merged)->tensors().size(), tensors);
}

}  // namespace
}  // namespace coxswain::exports
