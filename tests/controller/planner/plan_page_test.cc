#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/hash.h"
#include "common/format.h"
#include "common/plan/extents.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/planner.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

class PlanPageTest : public testing::Test {
 protected:
  void Make() {
    auto recipe = Recipe::Make(job_, model_, data_);
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    recipe_ = std::move(*recipe);
    auto planned = MakePlan("small-1", job_, model_, recipe_, resources_);
    ASSERT_TRUE(planned.ok()) << planned.status();
    planned_ = std::move(*planned);
  }

  bool Advised(const std::string& part) {
    Make();
    for (const std::string& line : planned_.advice) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }

  data::PreparedData data_ = SmallData(101, 20);
  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
  WorkerResources resources_;
  Recipe recipe_;
  PlannedJob planned_;
};

TEST_F(PlanPageTest, PageShowsWhatAUserDecidesBy) {
  data_.warnings = {"something odd"};
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  for (const std::string& part :
       {std::string("Qwen2ForCausalLM"), std::string("trainable"), std::string("lora_a"),
        std::string("lora_b"), std::string("learning rate 0.0016"), std::string("101 documents"),
        std::string("slots filled"), std::string("Global batch"),
        std::string("replicate 1 x shard 2, ZeRO 1"), std::string("of the step) not hidden"),
        std::string("recompute none, LM head in chunks of 128 tokens (64.0 KiB of logits)"),
        std::string("  activations"), std::string("FLOP per token"), std::string("tokens/s"),
        std::string("assuming 88 GFLOP/s per worker thread, 1 thread each"),
        std::string("(1 pass, "), std::string("Warning        something odd"),
        ToHex(planned_.hash).substr(0, 16)}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << " in:\n" << page;
  }
}

TEST_F(PlanPageTest, SaysHowGradientsAreAddedAndWhy) {
  Make();
  EXPECT_EQ(FormatPlan(job_, recipe_, planned_, data_).find("of gradients in"), std::string::npos);
  job_.device = config::Device::kCuda;
  job_.adapter = config::Adapter::kNone;
  job_.compute_dtype = job_.master_dtype = job_.gradient_dtype = Precision::kBfloat16;
  job_.gradient_sum = "auto";
  model_.head_dim = 8;
  job_.workers = 1;
  job_.train.micro_batch_size = 1;
  job_.train.global_batch_size = 65;
  data_ = SmallData(2000, 60);
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("  sums         of gradients in bfloat16: compensated, 65 terms in a step, "
                      "more than 64\n"),
            std::string::npos)
      << page;
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["gradient_sum"], "compensated");
  EXPECT_EQ(json["layout"]["gradient_terms"], 65);
}

// Held-back losses of bench/results/papers_fp8.json: of each recipe, by seed, beside bfloat16's.
class RecordedFp8Losses {
 public:
  RecordedFp8Losses() {
    std::ifstream file("bench/results/papers_fp8.json");
    record_ = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    for (const auto& row : record_["rows"]) {
      losses_[row["variant"]][row["seed"]] = row["held_back_loss"];
    }
  }

  // The row "quality" of a plan in this recipe.
  std::string Quality(const std::string& recipe) const {
    double farthest = 0;  // percent
    for (const auto& [seed, loss] : losses_.at(recipe)) {
      const double control = losses_.at("bfloat16").at(seed);
      farthest = std::max(farthest, 100 * std::abs(loss / control - 1));
    }
    const std::vector<std::string> counts = {"no seed", "one seed", "two seeds", "three seeds"};
    EXPECT_EQ(record_["shape"], "qwen2.5-0.5b");
    EXPECT_EQ(record_["steps"], 1000);
    return absl::StrFormat("held-back loss within %.1f %% of bfloat16's (0.5B, 1,000 steps, %s)",
                           std::ceil(10 * farthest) / 10, counts.at(losses_.at(recipe).size()));
  }

 private:
  nlohmann::json record_;
  std::map<std::string, std::map<int, double>> losses_;
};

TEST_F(PlanPageTest, SaysOfARecipeInFp8WhatWasMeasured) {
  const RecordedFp8Losses recorded;
  EXPECT_NE(recorded.Quality("tensorwise"), recorded.Quality("blockwise"));
  for (const auto& [name, recipe] : {std::pair{"tensorwise", config::Fp8Recipe::kTensorwise},
                                     {"rowwise", config::Fp8Recipe::kRowwise},
                                     {"blockwise", config::Fp8Recipe::kBlockwise},
                                     {"delayed", config::Fp8Recipe::kDelayed}}) {
    job_.fp8.emplace().recipe = recipe;
    Make();
    const std::string page = FormatPlan(job_, recipe_, planned_, data_);
    EXPECT_NE(page.find(absl::StrCat("linears in FP8, ", name, ", ")), std::string::npos) << page;
    EXPECT_NE(page.find(absl::StrCat("  quality      ", recorded.Quality(name), "\n")),
              std::string::npos)
        << recorded.Quality(name) << " in:\n"
        << page;
  }
}

TEST_F(PlanPageTest, SaysOfWhichRecipesAttentionInFp8WasMeasured) {
  model_.head_dim = 128;
  job_.device = config::Device::kCuda;
  job_.workers = 1;
  job_.compute_dtype = Precision::kBfloat16;
  for (const auto& [recipe, words] :
       {std::pair{config::Fp8Recipe::kBlockwise, "within 0.3 %"},
        {config::Fp8Recipe::kRowwise, "; of attention not measured"},
        {config::Fp8Recipe::kDelayed, "; of attention not measured"}}) {
    job_.fp8.emplace().attention = true;
    job_.fp8->recipe = recipe;
    Make();
    const std::string page = FormatPlan(job_, recipe_, planned_, data_);
    EXPECT_NE(page.find(words), std::string::npos) << page;
  }
}

TEST_F(PlanPageTest, SaysWhetherAttentionIsInFp8) {
  model_.head_dim = 128;
  job_.device = config::Device::kCuda;
  job_.workers = 1;
  job_.compute_dtype = Precision::kBfloat16;
  for (const bool attention : {false, true}) {
    job_.fp8.emplace().attention = attention;
    Make();
    const std::string page = FormatPlan(job_, recipe_, planned_, data_);
    EXPECT_EQ(page.find("; with attention in FP8 within 0.3 %") != std::string::npos, attention)
        << page;
    EXPECT_EQ(page.find("  attention    forward in FP8, heads 128 wide, ") != std::string::npos,
              attention)
        << page;
    EXPECT_EQ(page.find("Attention      warpgroups, ") != std::string::npos, attention) << page;
    const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
    EXPECT_EQ(json["layout"]["fp8"]["attention"], attention);
    EXPECT_EQ(json["layout"]["fp8"]["attention_bytes"] > 0, attention);
  }
  job_.device = config::Device::kCpu;
  job_.compute_dtype = Precision::kFloat32;
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("  attention    forward in FP8, heads 128 wide\n"), std::string::npos)
      << page;
}

TEST_F(PlanPageTest, SaysWhichExpertsAreInFp8) {
  model_ = SmallExperts();
  model_.mixture.width = 32;
  job_.fp8.emplace().keeps_weights = true;
  const auto stacks = [&](const char* in_fp8) {
    return absl::StrCat(" linears and ", in_fp8, " of ", 2 * model_.num_layers,
                        " stacks of experts");
  };
  for (const bool experts : {false, true}) {
    job_.fp8->experts = experts;
    job_.adapter = config::Adapter::kLora;
    Make();
    const std::string page = FormatPlan(job_, recipe_, planned_, data_);
    const std::string count = experts ? absl::StrCat(2 * model_.num_layers) : "0";
    EXPECT_NE(page.find(stacks(count.c_str()) + " in FP8, tensorwise"), std::string::npos) << page;
    EXPECT_EQ(page.find("; of experts not measured") != std::string::npos, experts) << page;
    const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
    EXPECT_EQ(json["layout"]["fp8"]["experts"], experts ? 2 * model_.num_layers : 0);
    EXPECT_EQ(json["layout"]["fp8"]["of_experts"], 2 * model_.num_layers);
  }
  uint64_t codes = 0;
  for (const plan::Buffer& row : planned_.plan.buffers) {
    if (absl::StrContains(row.name, "_w8")) codes += static_cast<uint64_t>(row.bytes);
  }
  EXPECT_GT(codes, 0u);
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_)
                .find(absl::StrCat("codes of weights kept (", FormatBytes(codes), ")")),
            std::string::npos);
  job_.adapter = config::Adapter::kNone;
  Make();
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_)
                .find(absl::StrCat("of experts (gradients of their weights in ",
                                   ToString(planned_.plan.compute_dtype), ") in FP8")),
            std::string::npos);
  job_.fp8->gathers_codes = true;
  job_.zero = 3;
  Make();
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_)
                .find("as they are gathered, those of experts as they are read"),
            std::string::npos);
}

TEST_F(PlanPageTest, SaysWhatGatheredCodesSave) {
  job_.adapter = config::Adapter::kNone;
  job_.fp8.emplace().gathers_codes = true;
  job_.zero = 2;
  model_.intermediate_size = 48;
  Make();
  EXPECT_EQ(FormatPlan(job_, recipe_, planned_, data_).find("  gather "), std::string::npos);
  job_.zero = 3;
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("weights quantised as they are gathered"), std::string::npos) << page;
  EXPECT_NE(page.find(" of the linears of a block instead of "), std::string::npos) << page;
  EXPECT_NE(page.find("; it saves "), std::string::npos) << page;
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["fp8"]["gathers_codes"], true);
  job_.fp8->gathers_codes = false;
  Make();
  EXPECT_EQ(FormatPlan(job_, recipe_, planned_, data_).find("  gather "), std::string::npos);
}

TEST_F(PlanPageTest, SaysWhetherCodesOfWeightsAreKept) {
  job_.fp8.emplace().keeps_weights = true;
  Make();
  EXPECT_TRUE(planned_.plan.fp8.keeps_weights);
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_).find("codes of weights kept"),
            std::string::npos);
  const uint64_t kept = PlannedMemory(planned_.plan).total();
  job_.fp8->keeps_weights = false;
  Make();
  EXPECT_FALSE(planned_.plan.fp8.keeps_weights);
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_).find("weights quantised as they are read"),
            std::string::npos);
  EXPECT_LT(PlannedMemory(planned_.plan).total(), kept);
}

TEST_F(PlanPageTest, SaysWhatAPreferenceMethodTrains) {
  Make();
  EXPECT_EQ(FormatPlan(job_, recipe_, planned_, data_).find("Loss  "), std::string::npos);
  planned_.plan.document_loss = {
      .terms = {{"sigmoid", 1}, {"nll", 0.5}}, .beta = 0.25, .reference = "kept"};
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("Loss           sigmoid + 0.5 x nll, beta 0.25; reference: the start, "
                      "computed once and kept"),
            std::string::npos)
      << page;
}

TEST_F(PlanPageTest, SaysByWhatExpertsAreBalanced) {
  model_.tie_embeddings = model_.qkv_bias = false;
  model_.architecture = "Glm4MoeForCausalLM";
  model_.mixture = {.experts = 8, .chosen = 2, .width = 12, .score = "sigmoid"};
  job_.adapter = config::Adapter::kNone;
  Make();
  EXPECT_EQ(FormatPlan(job_, recipe_, planned_, data_).find("bias moves"), std::string::npos);
  job_.moe.bias_rate = 0.002;
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("z-loss x 0; their bias moves by 0.002\n"), std::string::npos) << page;
}

// Of a router [6, 32] A has 4 x 32 elements and B 6 x 4, in each of three layers.
TEST_F(PlanPageTest, CountsAdaptersOfRouters) {
  model_ = SmallExperts();
  job_.lora.r = 4;
  job_.lora.target_modules = {"q_proj"};
  Make();
  const int64_t without = planned_.estimate.trainable_parameters;
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_).find("routers      frozen;"),
            std::string::npos);
  job_.lora.target_modules = {"q_proj", "router"};
  Make();
  EXPECT_EQ(planned_.estimate.trainable_parameters, without + 3 * (4 * 32 + 6 * 4));
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("routers      adapted;"), std::string::npos) << page;
}

TEST_F(PlanPageTest, JsonHasStableKeysAndTheSameNumbers) {
  Make();
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  std::string keys;
  for (const auto& [key, value] : json.items()) keys += key + " ";
  EXPECT_EQ(keys,
            "advice checkpoint_bytes data flops_per_token groups job layout memory_bytes_per_rank "
            "model name "
            "plan_hash predicted recipe_hash schedule unusual warnings ");
  EXPECT_EQ(json["plan_hash"], ToHex(planned_.hash));
  EXPECT_EQ(json["recipe_hash"], ToHex(recipe_.hash()));
  EXPECT_EQ(json["schedule"]["total_steps"], recipe_.total_steps());
  EXPECT_EQ(json["schedule"]["train_tokens"], recipe_.train_tokens());
  EXPECT_EQ(json["memory_bytes_per_rank"]["total"], planned_.estimate.total_bytes);
  EXPECT_EQ(json["memory_bytes_per_rank"]["runtime"], 0);
  EXPECT_EQ(json["model"]["trainable_parameters"], planned_.estimate.trainable_parameters);
  EXPECT_EQ(json["groups"][1]["name"], "lora_b");
  EXPECT_EQ(json["layout"]["micro_batch_bins"], planned_.plan.micro_batch_bins);
  EXPECT_EQ(json["data"]["eval_bins"], recipe_.eval_bins().size());
}

TEST_F(PlanPageTest, SaysThatTheHeadIsCut) {
  job_.loss_head = config::LossHead::kCut;
  job_.head_memory_mib = 1;
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("recompute none, LM head cut ("), std::string::npos) << page;
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["lm_head"], "cut");
  EXPECT_EQ(json["layout"]["lm_head_bytes"], planned_.plan.lm_head_panel_bytes);
}

// Shows device, formats, attention and memory beside the device's.
TEST_F(PlanPageTest, PageOfAGpuJob) {
  job_.device = config::Device::kCuda;
  job_.workers = 1;
  job_.compute_dtype = Precision::kBfloat16;
  job_.adapter = config::Adapter::kNone;
  job_.recompute = RecomputeLevel::kBlock;
  job_.recompute_every = 3;
  job_.master_dtype = Precision::kBfloat16;
  model_.head_dim = 8;
  resources_.gpu = GpuOf("NVIDIA H200");
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  for (const std::string& part :
       {std::string("cuda, compute bfloat16, masters bfloat16 (stochastic rounding), gradients "
                    "float32"),
        std::string("deterministic, workspace at most 64.0 MiB (auto)"), std::string("Host memory"),
        std::string("recompute blocks in segments of 3"),
        std::string("adamw, adam.m float32, adam.v float32"),
        std::string("at the rates of one H200: 685 TFLOP/s in bfloat16 products, 4.28 TB/s"),
        std::string("MFU ")}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << " in:\n" << page;
  }
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["device"], "cuda");
  EXPECT_EQ(json["layout"]["master_dtype"], "bfloat16");
  EXPECT_EQ(json["layout"]["recompute_every"], 3);
  EXPECT_EQ(json["layout"]["optimizer"]["states"]["adam.m"], "float32");
  EXPECT_EQ(json["memory_bytes_per_rank"]["runtime"], plan::kCudaRuntimeBytes);
  EXPECT_EQ(json["memory_bytes_per_rank"]["host"], planned_.estimate.host);
  EXPECT_EQ(json["checkpoint_bytes"], planned_.estimate.host);  // of one rank
  EXPECT_EQ(json["predicted"]["mfu"], planned_.estimate.mfu);
  EXPECT_EQ(json["predicted"]["rates"], "table");
  EXPECT_EQ(json["predicted"]["assumed_flops_per_second"], 685e12);
}

TEST_F(PlanPageTest, SaysWhatATimeOfAGpuRestsOn) {
  job_.device = config::Device::kCuda;
  job_.workers = 2;
  model_.head_dim = 8;
  const auto page = [this] {
    Make();
    return FormatPlan(job_, recipe_, planned_, data_);
  };
  const auto has = [&page](const std::string& part) {
    const std::string text = page();
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
  };
  has("Predicted      no time: no GPU is known here; cox plan --gpu H200 plans for one by name\n");
  resources_.gpu = GpuOf("NVIDIA L40S");
  has("Predicted      not measured on this GPU (L40S)\n");
  has(" ms a step, how much of it is hidden is not known, ");
  EXPECT_EQ(page().find("tokens/s"), std::string::npos);
  const auto predicted =
      nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_))["predicted"];
  for (const char* key : {"tokens_per_second", "seconds", "step_seconds", "mfu", "rates",
                          "exposed_seconds_per_step", "assumed_flops_per_second"}) {
    EXPECT_TRUE(predicted.at(key).is_null()) << key;
  }
  EXPECT_EQ(predicted["gpu"], "L40S");
  EXPECT_GT(predicted["comm_seconds_per_step"], 0);
  resources_.gpu =
      GpuOf("NVIDIA L40S", {.product_flops_per_second = 300e12, .copy_bytes_per_second = 0.7e12});
  has("at rates that its worker measured on one L40S: 270 TFLOP/s in bfloat16 products, 0.70 TB/s");
}

TEST_F(PlanPageTest, SaysHowTheBaseIsKept) {
  job_.quantization = "nf4";
  Make();
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_)
                .find("linears of blocks in nf4, dequantised into slots of two blocks"),
            std::string::npos);
  model_ = SmallExperts();
  job_.quantization = "none";
  Make();
  const uint64_t plain = planned_.estimate.weights;
  job_.quantization = "mxfp4";
  Make();
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_)
                .find("experts in mxfp4, 4.25 bits an element, dequantised into slots of two "
                      "blocks"),
            std::string::npos);
  // Three blocks of 6 x 32 x 64 x 3 elements, of which two are in slots of float32.
  const int64_t block = 6 * 32 * 64 * 3;
  EXPECT_EQ(static_cast<int64_t>(plain - planned_.estimate.weights),
            3 * (4 * block - block * 17 / 32) - 2 * 4 * block);
  resources_.memory_bytes = planned_.estimate.total_bytes - 1;
  Make();
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_)
                .find("experts in mxfp4, 4.25 bits an element, experts dequantised 6 at a time"),
            std::string::npos);
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["experts_at_once"], 6);
}

// Half of a host's memory may be page-locked for the snapshots of its ranks.
TEST_F(PlanPageTest, SaysWhatSnapshotsInSlicesCost) {
  job_.device = config::Device::kCuda;
  job_.workers = 4;
  job_.compute_dtype = Precision::kBfloat16;
  job_.adapter = config::Adapter::kNone;
  model_.head_dim = 8;
  Make();
  const uint64_t rank = planned_.estimate.host;
  ASSERT_GT(rank, 0u);
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_).find("page-locked"), std::string::npos);
  resources_.host_bytes = 2 * 4 * rank;  // one host
  EXPECT_FALSE(Advised("slices"));
  resources_.host_bytes -= 10;
  EXPECT_TRUE(Advised("are copied in slices. The copy is assumed to take"));
  EXPECT_TRUE(planned_.plan.snapshot_in_slices);
  EXPECT_NE(FormatPlan(job_, recipe_, planned_, data_).find("copied in slices"), std::string::npos);
  resources_.ranks_of_hosts = {2, 2};
  EXPECT_FALSE(Advised("slices"));
  resources_.host_bytes = 2 * rank;
  const auto refused = MakePlan("small-1", job_, model_, recipe_, resources_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_NE(refused.message().find(std::to_string(2 * rank) + " bytes"), absl::string_view::npos);
}

TEST_F(PlanPageTest, NamesTheStatesOfTheOptimizer) {
  job_.train.optimizer = OptimizerKind::kAdamW8bit;
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("adamw_8bit, adam.m dynamic8, adam.m_absmax float32 of 256"),
            std::string::npos)
      << page;
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["optimizer"]["name"], "adamw_8bit");
  EXPECT_EQ(json["layout"]["optimizer"]["states"]["adam.v"], "dynamic8");
}

TEST_F(PlanPageTest, SaysWhenNothingOverlaps) {
  Make();
  EXPECT_EQ(FormatPlan(job_, recipe_, planned_, data_).find("no overlap"), std::string::npos);
  job_.overlap = false;
  Make();
  EXPECT_FALSE(planned_.plan.overlap);
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  EXPECT_NE(page.find("ZeRO 1, no overlap"), std::string::npos) << page;
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["overlap"], false);
}

TEST_F(PlanPageTest, NamesTheKernelsOfAttentionAndWhatIsFused) {
  job_.device = config::Device::kCuda;
  job_.workers = 1;
  const auto page_has = [this](const std::string& words) {
    Make();
    const std::string page = FormatPlan(job_, recipe_, planned_, data_);
    EXPECT_NE(page.find(words), std::string::npos) << words << "\n" << page;
  };
  model_.head_dim = 8;
  page_has("plain kernels (slow), ");
  job_.compute_dtype = Precision::kBfloat16;
  page_has("cuDNN for bins of one document, tiles for packed ones");
  page_has("  fused        add_norm, gated_linear, gate_down, attention_rotate\n");
  job_.lora.use_dora = true;  // on every linear
  page_has("  fused        add_norm, attention_rotate\n");
  model_.attention_softcap = 50;
  page_has("Attention      tiles, ");
  model_.head_dim = 256;
  page_has("Attention      tiles, ");
  job_.adapter = config::Adapter::kNone;
  page_has("linear_rotate, linear_add, gated_linear, gate_down, attention_rotate\n");
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["fusions"].size(), 5u);
  EXPECT_EQ(json["layout"]["attention_kernels"]["packed_bins"], "tiles");
  model_.attention_softcap = 0;
  model_.head_dim = 64;
  page_has("cuDNN for bins of one document, tiles for packed ones");
  resources_.compute_capability = 90;
  page_has("Attention      warpgroups, ");
  job_.attention_deterministic = false;
  page_has("Attention      warpgroups, ");
  model_.head_dim = 128;
  job_.sequence_len = 4096;  // from here on atomics win
  page_has("cuDNN for bins of one document, warpgroups for packed ones");
  model_.head_dim = 256;  // of which cuDNN has no backward
  page_has("Attention      warpgroups, ");
}

TEST_F(PlanPageTest, SaysWhereBitsRepeatAnyway) {
  job_.device = config::Device::kCuda;
  job_.workers = 1;
  job_.compute_dtype = Precision::kBfloat16;
  model_.head_dim = 64;
  resources_.compute_capability = 90;
  EXPECT_FALSE(Advised("attention.deterministic"));
  job_.attention_deterministic = false;
  EXPECT_TRUE(Advised("attention.deterministic: false has no effect on heads of 64 elements"));
  resources_.compute_capability = 80;
  EXPECT_FALSE(Advised("attention.deterministic"));
  resources_.compute_capability = 90;
  model_.head_dim = 128;
  EXPECT_TRUE(Advised("(warpgroups) repeat their bits"));
  job_.sequence_len = 4096;  // cuDNN's atomics, where a bin is one document
  EXPECT_FALSE(Advised("attention.deterministic"));
}

TEST_F(PlanPageTest, AdvisesOnPrecision) {
  job_.device = config::Device::kCuda;
  job_.workers = 1;
  model_.head_dim = 8;
  EXPECT_TRUE(Advised("precision.compute is float32: plain attention"));
  EXPECT_TRUE(Advised("a step has 256 tokens"));
  job_.compute_dtype = Precision::kBfloat16;
  job_.master_dtype = Precision::kBfloat16;
  EXPECT_TRUE(Advised("adapters keep float32"));
}

// Three documents that fill their bins.
TEST_F(PlanPageTest, SaysWhatAttentionTakesOfTheMemoryThatIsLeft) {
  job_.device = config::Device::kCuda;
  job_.workers = 1;
  job_.compute_dtype = Precision::kBfloat16;
  job_.train.global_batch_size = 1;
  job_.sequence_len = 65536;
  model_.num_heads = model_.num_kv_heads = 8;
  model_.head_dim = 8;
  data_ = DataOf({65536, 65536, 65536}, {});
  Make();
  EXPECT_TRUE(
      Advised("attention.workspace_gib auto takes 8.03 GiB of workspace for cuDNN's "
              "deterministic attention of documents of 65536 tokens, from memory that the "
              "rest of the plan leaves free"));
  auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["attention_workspace"]["auto"], true);
  EXPECT_EQ(json["layout"]["attention_workspace"]["fastest_bytes"],
            json["layout"]["attention_workspace_bytes"]);
  resources_.memory_bytes = planned_.estimate.total_bytes - 1;
  EXPECT_TRUE(
      Advised("attention.workspace_gib is auto: 8.03 GiB of workspace for cuDNN's "
              "deterministic attention of documents of 65536 tokens is not left, slower "
              "kernels run"));
  job_.attention_workspace_gib = 4;
  EXPECT_TRUE(
      Advised("attention.workspace_gib is 4: 8.03 GiB of workspace for cuDNN's "
              "deterministic attention of documents of 65536 tokens is above it"));
  json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  EXPECT_EQ(json["layout"]["attention_workspace"]["auto"], false);
  EXPECT_GT(json["layout"]["attention_workspace"]["fastest_bytes"],
            json["layout"]["attention_workspace_bytes"]);
}

TEST_F(PlanPageTest, SmallModelsAndUsualSettingsGetNoAdvice) {
  Make();
  EXPECT_TRUE(planned_.advice.empty()) << planned_.advice[0];
}

// Half a billion parameters by a wide vocabulary: cheap to plan.
TEST_F(PlanPageTest, AdvisesByModelSize) {
  model_.vocab_size = 500'000'000 / 16;
  job_.lora.r = 256;
  EXPECT_TRUE(Advised("lora.r is 256, recommended for a model of 0.5B: 32"));
  job_.lora.r = 64;
  EXPECT_FALSE(Advised("lora.r"));
  job_.train.learning_rate = 1e-2;
  EXPECT_TRUE(Advised("train.learning_rate is 0.01, recommended for LoRA on a model of 0.5B"));
  job_.adapter = config::Adapter::kNone;
  EXPECT_TRUE(Advised("recommended for full fine-tuning: 2e-05"));
  job_.train.micro_batch_size = 128;
  EXPECT_TRUE(Advised("train.micro_batch_size is 128"));
  model_.vocab_size *= 14;
  job_.recompute = RecomputeLevel::kNone;
  EXPECT_TRUE(Advised("recompute is none, recommended for a model of 7B: block"));
}

TEST_F(PlanPageTest, AdvisesOnScheduleAndBatch) {
  job_.train.warmup_steps = 1000;
  EXPECT_TRUE(Advised("warm-up takes 1000 steps"));
  job_.train.global_batch_size = 5;
  EXPECT_TRUE(Advised("does not divide by 2 workers"));
  job_.train.global_batch_size = 1000;
  EXPECT_TRUE(Advised("a step is a whole pass"));
  job_.packing.max_documents_per_bin = 1;
  EXPECT_TRUE(
      Advised("stays empty in bins that have 1 documents, the most that "
              "packing.max_documents_per_bin allows; a larger one fills them"));
  job_.packing.strategy = config::PackingStrategy::kNone;
  EXPECT_TRUE(Advised("bins are filled to"));
  EXPECT_FALSE(Advised("packing.max_documents_per_bin"));
}

}  // namespace
}  // namespace coxswain::planner
