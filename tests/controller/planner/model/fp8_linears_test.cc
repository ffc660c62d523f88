#include "controller/planner/model/fp8_linears.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/fp8_linears.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace fp8_linears_test {
namespace {

config::JobSpec JobOf(config::Fp8Recipe recipe, std::vector<std::string> exclude = {}) {
  config::JobSpec job = SmallJob();
  job.adapter = config::Adapter::kNone;
  config::Fp8Spec fp8;
  fp8.recipe = recipe;
  fp8.keeps_activations = true;
  fp8.exclude = std::move(exclude);
  job.fp8 = fp8;
  return job;
}

plan::Plan PlanOf(const model::ModelConfig& model, DeviceKind device = DeviceKind::kCuda) {
  plan::Plan plan;
  plan.model = model;
  plan.device = device;
  plan.architecture = model::ArchitectureOf(model);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  return plan;
}

// 16, 32 and 48 wide: all linears can be in FP8.
model::ModelConfig EvenModel() {
  model::ModelConfig model = SmallModel();
  model.intermediate_size = 48;
  return model;
}

std::string Refusal(const config::JobSpec& job, int32_t capability, plan::Plan plan) {
  return std::string(ChooseFp8(job, capability, &plan).message());
}

TEST(Fp8LinearsTest, AJobWithoutItHasNone) {
  plan::Plan plan = PlanOf(EvenModel());
  ASSERT_TRUE(ChooseFp8(SmallJob(), 90, &plan).ok());
  EXPECT_EQ(plan.fp8, plan::Fp8{});
}

// A width that is no multiple of 16 stays as it is: down reads 40 here.
TEST(Fp8LinearsTest, CountsTheLinearsWhoseWidthsFit) {
  for (const auto& [model, in_fp8] : {std::pair{EvenModel(), 12}, {SmallModel(), 9}}) {
    plan::Plan plan = PlanOf(model);
    ASSERT_TRUE(ChooseFp8(JobOf(config::Fp8Recipe::kRowwise), 90, &plan).ok());
    EXPECT_EQ(plan.fp8.recipe, plan::Fp8Recipe::kRowwise);
    EXPECT_EQ(CountFp8(plan).in_fp8, in_fp8);
    EXPECT_EQ(CountFp8(plan).all, 12);
  }
}

TEST(Fp8LinearsTest, ExcludesByPartsOfNames) {
  const std::pair<const char*, int> cases[] = {
      {"down_proj", 9},   {"layers.1", 8},      {"q_proj", 9},
      {"mlp.up_proj", 9}, {"layers.1.mlp", 10}, {"model\\.layers\\.[02]\\.self_attn\\.o_proj", 10}};
  for (const auto& [name, left] : cases) {
    plan::Plan plan = PlanOf(EvenModel());
    const absl::Status status = ChooseFp8(JobOf(config::Fp8Recipe::kTensorwise, {name}), 90, &plan);
    ASSERT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_EQ(CountFp8(plan).in_fp8, left) << name;
  }
  EXPECT_EQ(Refusal(JobOf(config::Fp8Recipe::kTensorwise, {"down"}), 90, PlanOf(EvenModel())),
            "precision.fp8.exclude: \"down\" means no linear of a block; parts of a name between "
            "dots mean it, as of \"model.layers.0.self_attn.q_proj\"");
}

TEST(Fp8LinearsTest, RefusesWhatAGpuHasNot) {
  const plan::Plan plan = PlanOf(EvenModel());
  const config::JobSpec tensorwise = JobOf(config::Fp8Recipe::kTensorwise);
  const config::JobSpec blockwise = JobOf(config::Fp8Recipe::kBlockwise);
  EXPECT_NE(Refusal(tensorwise, 80, plan).find("compute capability 8.0"), std::string::npos);
  EXPECT_EQ(Refusal(tensorwise, 89, plan), "");
  EXPECT_EQ(Refusal(tensorwise, 100, plan), "");
  const config::JobSpec delayed = JobOf(config::Fp8Recipe::kDelayed);
  EXPECT_NE(Refusal(delayed, 80, plan).find("recipe is delayed"), std::string::npos);
  EXPECT_EQ(Refusal(delayed, 89, plan), "");
  EXPECT_NE(Refusal(blockwise, 89, plan).find("set recipe: tensorwise"), std::string::npos);
  EXPECT_EQ(Refusal(blockwise, 80, plan).find("tensorwise"), std::string::npos);
  EXPECT_EQ(Refusal(blockwise, 90, plan), "");
  EXPECT_EQ(Refusal(blockwise, 0, plan), "");
  EXPECT_EQ(Refusal(blockwise, 80, PlanOf(EvenModel(), DeviceKind::kCpu)), "");
}

TEST(Fp8LinearsTest, TilesOnAGpuTakeAMultipleOfFourTokens) {
  const config::JobSpec job = JobOf(config::Fp8Recipe::kBlockwise);
  plan::Plan plan = PlanOf(EvenModel());
  plan.sequence_len = 62;
  EXPECT_NE(Refusal(job, 90, plan).find("sequence_len is 62; on a GPU it takes a multiple of 4"),
            std::string::npos);
  plan.device = DeviceKind::kCpu;
  EXPECT_EQ(Refusal(job, 0, plan), "");
}

// Three blocks, of experts 32 wide.
model::ModelConfig EvenExperts() {
  model::ModelConfig model = SmallExperts();
  model.mixture.width = 32;
  return model;
}

config::JobSpec JobOfExperts(std::vector<std::string> exclude = {}) {
  config::JobSpec job = JobOf(config::Fp8Recipe::kTensorwise, std::move(exclude));
  job.fp8->experts = true;
  return job;
}

TEST(Fp8LinearsTest, CountsTheStacksOfExperts) {
  const int64_t stacks = 2 * EvenExperts().num_layers;
  for (const bool experts : {false, true}) {
    config::JobSpec job = JobOfExperts();
    job.fp8->experts = experts;
    plan::Plan plan = PlanOf(EvenExperts());
    ASSERT_TRUE(ChooseFp8(job, 90, &plan).ok());
    EXPECT_EQ(plan.fp8.experts, experts);
    EXPECT_EQ(CountFp8(plan).experts_in_fp8, experts ? stacks : 0);
    EXPECT_EQ(CountFp8(plan).all_experts, stacks);
  }
  plan::Plan dense = PlanOf(EvenModel());
  ASSERT_TRUE(ChooseFp8(JobOfExperts(), 89, &dense).ok());
  EXPECT_FALSE(dense.fp8.experts);
}

TEST(Fp8LinearsTest, ExcludesStacksOfExperts) {
  const int64_t layers = EvenExperts().num_layers;
  for (const auto& [name, left] : {std::pair{"experts", int64_t{0}},
                                   {"experts.down_proj", layers},
                                   {"layers.0", 2 * layers - 2},
                                   {"q_proj", 2 * layers}}) {
    plan::Plan plan = PlanOf(EvenExperts());
    const absl::Status status = ChooseFp8(JobOfExperts({name}), 90, &plan);
    ASSERT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_EQ(CountFp8(plan).experts_in_fp8, left) << name;
  }
  config::JobSpec without = JobOfExperts({"experts"});
  without.fp8->experts = false;
  const std::string refusal = Refusal(without, 90, PlanOf(EvenExperts()));
  EXPECT_NE(refusal.find("\"experts\" means no linear of a block"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("; precision.fp8.experts is bfloat16"), std::string::npos) << refusal;
}

TEST(Fp8LinearsTest, RefusesExpertsThatHaveNoProducts) {
  const plan::Plan plan = PlanOf(EvenExperts());
  for (const auto& [capability, refused] : {std::pair{89, true}, {100, true}, {90, false}}) {
    const std::string refusal = Refusal(JobOfExperts(), capability, plan);
    EXPECT_EQ(refusal.find("which has no products of experts in FP8; 9.0 is needed (Hopper)") !=
                  std::string::npos,
              refused)
        << capability << ": " << refusal;
  }
  EXPECT_EQ(Refusal(JobOfExperts(), 0, PlanOf(EvenExperts(), DeviceKind::kCpu)), "");
  config::JobSpec rowwise = JobOf(config::Fp8Recipe::kRowwise);
  EXPECT_EQ(Refusal(rowwise, 90, plan), "");
  rowwise.fp8->experts = true;
  EXPECT_EQ(Refusal(rowwise, 90, plan),
            "precision.fp8.experts is fp8, precision.fp8.recipe is rowwise, of which experts have "
            "no products; set experts: bfloat16, or recipe: tensorwise");
}

TEST(Fp8LinearsTest, RefusesAttentionThatHasNoneInFp8) {
  config::JobSpec job = JobOf(config::Fp8Recipe::kTensorwise);
  job.fp8->attention = true;
  const auto of = [&job](auto change, int32_t capability = 90) {
    plan::Plan plan = PlanOf(EvenModel());
    plan.model.head_dim = 128;
    change(plan);
    return Refusal(job, capability, plan);
  };
  const auto as_it_is = [](plan::Plan&) {};
  EXPECT_EQ(of(as_it_is), "");
  EXPECT_EQ(of(as_it_is, 0), "");  // not known
  EXPECT_EQ(of(as_it_is, 100),
            "precision.fp8.attention is fp8, the GPU has compute capability 10.0, which has no "
            "attention in FP8; 9.0 is needed (Hopper): set attention: bfloat16");
  EXPECT_EQ(of([](plan::Plan& plan) { plan.device = DeviceKind::kCpu; }, 100), "");
  job.fp8->recipe = config::Fp8Recipe::kRowwise;
  EXPECT_EQ(of(as_it_is), "");
  EXPECT_EQ(of([](plan::Plan& plan) { plan.model.attention_softcap = 50; }),
            "precision.fp8.attention is fp8, the model has a softcap of scores, 50, which goes "
            "without FP8; set attention: bfloat16");
  for (const int64_t width : {8, 72, 192, 256}) {
    EXPECT_EQ(of([width](plan::Plan& plan) { plan.model.head_dim = width; }),
              absl::StrCat("precision.fp8.attention is fp8, heads of the model are ", width,
                           " wide; attention in FP8 takes multiples of 16 up to 128; set "
                           "attention: bfloat16"));
  }
  const auto many_heads = [](plan::Plan& plan) {
    plan.model.num_heads = 130;
    plan.model.num_kv_heads = 2;
  };
  EXPECT_EQ(of(many_heads),
            "precision.fp8.attention is fp8, 65 query heads of the model share a kv head; on a GPU "
            "attention in FP8 takes up to 64; set attention: bfloat16");
  EXPECT_EQ(of([&](plan::Plan& plan) {
              many_heads(plan);
              plan.device = DeviceKind::kCpu;
            }),
            "");
  EXPECT_EQ(of([](plan::Plan& plan) { plan.model.latent.emplace(); }),
            "precision.fp8.attention is fp8, the model has latent attention, which has no "
            "products in FP8; set attention: bfloat16");
}

TEST(Fp8LinearsTest, GathersCodesOfWeightsWithOneScale) {
  for (const config::Fp8Recipe recipe :
       {config::Fp8Recipe::kTensorwise, config::Fp8Recipe::kDelayed}) {
    config::JobSpec job = JobOf(recipe);
    for (const bool codes : {false, true}) {
      job.fp8->gathers_codes = codes;
      plan::Plan plan = PlanOf(EvenModel());
      ASSERT_TRUE(ChooseFp8(job, 90, &plan).ok());
      EXPECT_EQ(plan.fp8.gathers_codes, codes);
      EXPECT_FALSE(plan::GathersCodes(plan));
      plan.zero = 3;
      EXPECT_EQ(plan::GathersCodes(plan), codes);
    }
  }
}

TEST(Fp8LinearsTest, RefusesToGatherCodesOfRowsOrBlocksOrBesideDora) {
  for (const auto& [recipe, name] : {std::pair{config::Fp8Recipe::kRowwise, "rowwise"},
                                     {config::Fp8Recipe::kBlockwise, "blockwise"}}) {
    config::JobSpec job = JobOf(recipe);
    job.fp8->gathers_codes = true;
    plan::Plan plan = PlanOf(EvenModel());
    plan.sequence_len = 64;
    EXPECT_EQ(Refusal(job, 90, plan),
              absl::StrCat("precision.fp8.gather is fp8, precision.fp8.recipe is ", name,
                           ", which has a scale for each row or block of a weight, and ranks hold "
                           "parts of weights that cut rows and blocks; set gather: bfloat16, or "
                           "recipe: tensorwise"));
  }
  config::JobSpec job = JobOf(config::Fp8Recipe::kTensorwise);
  job.fp8->gathers_codes = true;
  plan::Plan plan = PlanOf(EvenModel());
  plan.lora.dora = true;
  EXPECT_NE(Refusal(job, 90, plan).find("lora.use_dora is true"), std::string::npos);
}

TEST(Fp8LinearsTest, RefusesAQuantisedBaseAndAModelWithoutALinearLeft) {
  plan::Plan plan = PlanOf(EvenModel());
  plan.quantization = Quantization::kNf4;
  EXPECT_NE(Refusal(JobOf(config::Fp8Recipe::kTensorwise), 90, plan).find("kept in nf4"),
            std::string::npos);
  EXPECT_NE(
      Refusal(JobOf(config::Fp8Recipe::kTensorwise, {"model.layers"}), 90, PlanOf(EvenModel()))
          .find("no linear of a block is left"),
      std::string::npos);
}

}  // namespace
}  // namespace fp8_linears_test
}  // namespace coxswain::planner
