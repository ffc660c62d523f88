// What export.dtype: fp8 asks for and cannot be written, before a job begins.
#include <gtest/gtest.h>

#include <string>

#include "controller/planner/model/parameter_groups.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace fp8_export_check_test {
namespace {

std::string Refusal(const config::JobSpec& job, const model::ModelConfig& model) {
  plan::Plan plan;
  plan.model = model;
  const absl::Status status = MakeParameters(job, &plan);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

config::JobSpec Job(config::Adapter adapter, bool merge) {
  config::JobSpec job = SmallJob();
  job.adapter = adapter;
  job.export_merge = merge;
  job.export_dtype = "fp8";
  return job;
}

// 128 wide, 2 of 4 heads of 32 in k and v.
model::ModelConfig Wide() {
  model::ModelConfig model = SmallModel();
  model.hidden_size = 128;
  model.head_dim = 32;
  return model;
}

TEST(Fp8ExportCheckTest, AModelWhoseWidthsFitIsTaken) {
  EXPECT_EQ(Refusal(Job(config::Adapter::kNone, false), Wide()), "");
  EXPECT_EQ(Refusal(Job(config::Adapter::kLora, true), Wide()), "");
}

TEST(Fp8ExportCheckTest, NoModelIsWrittenBesideAnAdapterAlone) {
  EXPECT_EQ(Refusal(Job(config::Adapter::kLora, false), SmallModel()), "");
}

TEST(Fp8ExportCheckTest, WhatCannotBeWrittenIsRefusedByName) {
  const std::string narrow =
      "export.dtype is fp8, no linear of a block has widths that are multiples of 128: "
      "\"model.layers.0.self_attn.q_proj.weight\" is [16, 16]; set export.dtype: bfloat16";
  EXPECT_EQ(Refusal(Job(config::Adapter::kNone, false), SmallModel()), narrow);
  EXPECT_EQ(Refusal(Job(config::Adapter::kLora, true), SmallModel()), narrow);
  const std::string experts = Refusal(Job(config::Adapter::kNone, false), SmallExperts());
  EXPECT_NE(experts.find("is of experts"), std::string::npos) << experts;
}

}  // namespace
}  // namespace fp8_export_check_test
}  // namespace coxswain::planner
