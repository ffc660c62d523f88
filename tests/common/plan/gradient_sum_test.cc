#include "common/plan/gradient_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/shard_map.h"
#include "common/plan/storage.h"

namespace coxswain::plan {
namespace gradient_sum_test {
namespace {

// Two blocks that are trained whole, 4 chunks of the head a micro-step.
Plan SummedPlan(bool tied) {
  Plan plan;
  model::ModelConfig& c = plan.model;
  c.architecture = "LlamaForCausalLM";
  c.vocab_size = 96;
  c.hidden_size = 32;
  c.intermediate_size = 64;
  c.num_layers = 2;
  c.num_heads = c.num_kv_heads = 2;
  c.head_dim = 16;
  c.tie_embeddings = tied;
  c.layer_windows = {0, 0};
  plan.parameters = model::BaseParameterTable(c);
  for (model::Parameter& p : plan.parameters) p.group = 0;
  plan.architecture = model::ArchitectureOf(c);
  plan.groups = {{.name = "weights"}};
  plan.compute_dtype = plan.master_dtype = plan.gradient_dtype = Precision::kBfloat16;
  plan.device = DeviceKind::kCuda;
  plan.sequence_len = 64;
  plan.micro_batch_bins = 2;
  plan.lm_head_chunk_tokens = 32;
  return plan;
}

int64_t BytesOf(const Plan& plan, const std::string& row) {
  for (const Buffer& buffer : BufferRows(plan)) {
    if (buffer.name == row) return buffer.bytes;
  }
  return 0;
}

TEST(GradientSumTest, TermsAreMicroStepsAndOfTheHeadItsChunks) {
  EXPECT_EQ(GradientTerms(SummedPlan(true), 10), 10);  // a tied head is summed in float32
  Plan plan = SummedPlan(false);
  EXPECT_EQ(GradientTerms(plan, 10), 40);
  plan.lm_head_chunk_tokens = 100;
  EXPECT_EQ(GradientTerms(plan, 10), 20);
  plan.lm_head_panel_bytes = 1 << 20;
  EXPECT_EQ(GradientTerms(plan, 10), 10);
}

TEST(GradientSumTest, WhatIsSummedInFloat32HasNoTerms) {
  Plan plan = SummedPlan(true);
  plan.gradient_dtype = Precision::kFloat32;
  EXPECT_EQ(GradientTerms(plan, 10), 0);
  plan = SummedPlan(true);
  plan.shard = plan.zero = 2;  // blocks have slots, and the tied embedding float32
  EXPECT_EQ(GradientTerms(plan, 10), 0);
  plan = SummedPlan(false);
  plan.shard = plan.zero = 2;
  EXPECT_EQ(GradientTerms(plan, 10), 40);
}

TEST(GradientSumTest, OnlyCompensatedSumsHaveCompanions) {
  Plan plan = SummedPlan(true);
  for (const GradientSum sum : {GradientSum::kNearest, GradientSum::kStochastic}) {
    plan.gradient_sum = sum;
    EXPECT_EQ(BytesOf(plan, "gradient_companions"), 0);
  }
  plan.gradient_sum = GradientSum::kCompensated;
  int64_t matrices = 0;
  for (const Flat& flat : ShardMap(plan).flats) {
    const bool rounded = flat.storage.gradient == Storage::kBfloat16;
    EXPECT_EQ(flat.companion >= 0, rounded);
    if (rounded) matrices += flat.elements;
  }
  EXPECT_EQ(BytesOf(plan, "gradient_companions"), 2 * matrices);
  plan.shard = plan.zero = 2;
  EXPECT_EQ(BytesOf(plan, "gradient_companions"), 0);
}

TEST(GradientSumTest, ATermHoldsTheLargestMatrixUpToABound) {
  Plan plan = SummedPlan(false);
  EXPECT_EQ(BytesOf(plan, "gradient_term"), 0);
  plan.gradient_sum = GradientSum::kStochastic;
  EXPECT_EQ(BytesOf(plan, "gradient_term"), 4 * 96 * 32);  // the head
  EXPECT_EQ(BytesOf(plan, "batch.first_bin"), 4);
  for (model::Parameter& p : plan.parameters) p.rows *= 1 << 14;
  EXPECT_EQ(GradientTermBytes(plan), kGradientTermBytes);
  for (model::Parameter& p : plan.parameters) p.rows *= p.kind == model::Kind::kLinear ? 2 : 1;
  EXPECT_EQ(GradientTermBytes(plan), kGradientTermBytes);
}

TEST(GradientSumTest, ATermHoldsAnExpert) {
  Plan plan = SummedPlan(true);
  plan.gradient_sum = GradientSum::kCompensated;
  for (model::Parameter& p : plan.parameters) {
    if (p.kind != model::Kind::kLinear) continue;
    p.kind = model::Kind::kExperts;
    p.batch = 4;
    p.rows *= 1 << 16;
  }
  int64_t largest = 0;
  for (const model::Parameter& p : plan.parameters) {
    if (p.kind == model::Kind::kExperts) largest = std::max(largest, p.elements() / 4);
  }
  ASSERT_GT(4 * largest, kGradientTermBytes);
  EXPECT_EQ(GradientTermBytes(plan), 4 * largest);
}

}  // namespace
}  // namespace gradient_sum_test
}  // namespace coxswain::plan
