#include "controller/planner/recipe/recipe.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/planner/recipe/extension.h"
#include "gtest/gtest.h"
#include "tests/common/files/torch_archive.h"
#include "tests/controller/planner/job_fixture.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {
namespace {

Recipe MustMake(const config::JobSpec& job, const data::PreparedData& data,
                const model::ModelConfig& model = SmallModel()) {
  auto recipe = Recipe::Make(job, model, data);
  EXPECT_TRUE(recipe.ok()) << recipe.status();
  return std::move(*recipe);
}

// Every document of the pass, once each, over all steps of it. Invariant planner-1.
TEST(RecipeTest, APassTrainsEveryDocumentExactlyOnce) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  job.train.num_epochs = 3;
  const Recipe recipe = MustMake(job, data);
  ASSERT_EQ(recipe.passes(), 3);
  std::vector<std::multiset<int64_t>> seen(3);
  for (int64_t step = 0; step < recipe.total_steps(); ++step) {
    for (const BinRef bin : recipe.step_bins(step)) {
      EXPECT_EQ(bin.pass, recipe.pass_of_step(step));
      int64_t tokens = 0;
      for (const int64_t document : recipe.documents(bin)) {
        seen[static_cast<size_t>(bin.pass)].insert(document);
        tokens += data.train->length(document);
      }
      EXPECT_LE(tokens, job.sequence_len);
    }
  }
  std::multiset<int64_t> all;
  for (int64_t document = 0; document < 101; ++document) all.insert(document);
  for (const auto& pass : seen) EXPECT_EQ(pass, all);
  EXPECT_EQ(recipe.train_tokens(), 3 * data.train->num_tokens());
}

// Invariant planner-2: steps are exact, the last batch of a pass is what is left.
TEST(RecipeTest, BatchesAreFullButTheLastOfAPass) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  job.train.num_epochs = 2;
  const Recipe recipe = MustMake(job, data);
  int64_t expected_steps = 0, step = 0;
  for (int64_t pass = 0; pass < 2; ++pass) {
    const int64_t bins = recipe.bins_per_pass(pass);
    expected_steps += (bins + 3) / 4;
    for (int64_t first = 0; first < bins; first += 4, ++step) {
      std::vector<BinRef> expected;
      for (int64_t i = first; i < std::min(first + 4, bins); ++i) {
        expected.push_back({.pass = pass, .index = i});
      }
      EXPECT_EQ(recipe.step_bins(step), expected) << step;
    }
  }
  EXPECT_EQ(recipe.total_steps(), expected_steps);
}

TEST(RecipeTest, MaxStepsRunsOverPassesAndEndsInside) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  job.train.num_epochs.reset();
  for (const int64_t steps : {1, 7, 40, 41}) {
    job.train.max_steps = steps;
    const Recipe recipe = MustMake(job, data);
    EXPECT_EQ(recipe.total_steps(), steps);
    EXPECT_EQ(recipe.pass_of_step(0), 0);
    EXPECT_EQ(recipe.pass_of_step(steps - 1), recipe.passes() - 1);
    EXPECT_FALSE(recipe.step_bins(steps - 1).empty());
  }
}

TEST(RecipeTest, FractionalPassesRoundUpToAStep) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  const int64_t steps = MustMake(job, data).total_steps();
  job.train.num_epochs = 0.5;
  EXPECT_EQ(MustMake(job, data).total_steps(), (steps + 1) / 2);
  job.train.num_epochs = 1e-9;
  EXPECT_EQ(MustMake(job, data).total_steps(), 1);
  job.train.num_epochs = 2.25;
  const Recipe recipe = MustMake(job, data);
  EXPECT_EQ(recipe.passes(), 3);
  const auto pass_steps = [&](int64_t pass) { return (recipe.bins_per_pass(pass) + 3) / 4; };
  EXPECT_EQ(recipe.total_steps(), pass_steps(0) + pass_steps(1) + (pass_steps(2) + 3) / 4);
}

TEST(RecipeTest, GlobalBatchFromItsParts) {
  const data::PreparedData data = SmallData(40);
  config::JobSpec job = SmallJob();
  job.train.global_batch_size.reset();
  job.workers = 3;
  EXPECT_EQ(MustMake(job, data).global_batch_bins(), 3);
  job.train.gradient_accumulation_steps = 2;
  EXPECT_EQ(MustMake(job, data).global_batch_bins(), 6);
  job.train.micro_batch_size = 5;
  EXPECT_EQ(MustMake(job, data).global_batch_bins(), 30);
}

TEST(RecipeTest, RefusesABatchThatLeavesAWorkerIdle) {
  const data::PreparedData data = SmallData(40);
  config::JobSpec job = SmallJob();
  job.train.global_batch_size = 1;
  const auto recipe = Recipe::Make(job, SmallModel(), data);
  EXPECT_EQ(recipe.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(recipe.status().ToString().find("1 bins for 2 workers"), std::string::npos);
}

TEST(RecipeTest, RefusesADocumentLongerThanABin) {
  const data::PreparedData data = SmallData(40, 40);
  config::JobSpec job = SmallJob();
  job.sequence_len = 40;
  EXPECT_EQ(Recipe::Make(job, SmallModel(), data).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RecipeTest, EvaluationKeepsFileOrderWithinItsLimits) {
  const data::PreparedData data = SmallData(40, 57);
  config::JobSpec job = SmallJob();
  job.packing.max_documents_per_bin = 3;
  const Recipe recipe = MustMake(job, data);
  const data::Bins& bins = recipe.eval_bins();
  int64_t next = 0;
  for (int64_t b = 0; b < bins.size(); ++b) {
    int64_t tokens = 0;
    ASSERT_FALSE(bins.bin(b).empty());
    EXPECT_LE(bins.bin(b).size(), 3u);
    for (const int64_t document : bins.bin(b)) {
      EXPECT_EQ(document, next++);
      tokens += data.eval->length(document);
    }
    EXPECT_LE(tokens, job.sequence_len);
  }
  EXPECT_EQ(next, 57);
  EXPECT_EQ(recipe.eval_tokens(), data.eval->num_tokens());
  job.packing.strategy = config::PackingStrategy::kNone;
  EXPECT_EQ(MustMake(job, data).eval_bins().size(), 57);
  EXPECT_EQ(MustMake(job, SmallData(40)).eval_bins().size(), 0);
}

TEST(RecipeTest, PackingEfficiencyIsOfTheFirstPass) {
  const data::PreparedData data = SmallData(101);
  const config::JobSpec job = SmallJob();
  const Recipe recipe = MustMake(job, data);
  EXPECT_DOUBLE_EQ(recipe.packing_efficiency(),
                   static_cast<double>(data.train->num_tokens()) /
                       static_cast<double>(recipe.bins_per_pass(0) * 64));
}

// With one document a bin the bound loses all that is empty; a bound that no bin reaches, nothing.
TEST(RecipeTest, SlotsAreLostInBinsThatMayHoldNoMore) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  job.packing.max_documents_per_bin = 1;
  const Recipe one = MustMake(job, data);
  EXPECT_DOUBLE_EQ(one.slots_lost_to_most_documents(), 1 - one.packing_efficiency());
  job.packing.max_documents_per_bin = 64;
  EXPECT_EQ(MustMake(job, data).slots_lost_to_most_documents(), 0);
  job.packing.strategy = config::PackingStrategy::kNone;
  job.packing.max_documents_per_bin = 1;
  EXPECT_EQ(MustMake(job, data).slots_lost_to_most_documents(), 0);
}

// Every document once, a unit in one bin, side by side and in order. Invariant planner-9.
TEST(RecipeTest, UnitsArePackedAsOne) {
  const data::PreparedData data = [] {
    data::PreparedData pairs = SmallData(202, 58);
    pairs.documents_per_unit = 2;
    return pairs;
  }();
  config::JobSpec job = SmallJob();
  job.method = "dpo";
  job.preference.loss = {"sigmoid"};
  job.preference.loss_weights = {1};
  for (const auto strategy :
       {config::PackingStrategy::kBestFit, config::PackingStrategy::kBestFitDecreasing,
        config::PackingStrategy::kFirstFit, config::PackingStrategy::kNone}) {
    job.packing.strategy = strategy;
    const Recipe recipe = MustMake(job, data);
    for (const auto& [bins, store] : {std::pair(&recipe.bins(0), data.train.get()),
                                      std::pair(&recipe.eval_bins(), data.eval.get())}) {
      std::set<int64_t> seen;
      for (int64_t bin = 0; bin < bins->size(); ++bin) {
        const auto documents = bins->bin(bin);
        int64_t tokens = 0;
        for (size_t i = 0; i < documents.size(); ++i) {
          EXPECT_EQ(documents[i] % 2, static_cast<int64_t>(i % 2));
          if (i % 2 == 1) {
            EXPECT_EQ(documents[i], documents[i - 1] + 1);
          }
          tokens += store->length(documents[i]);
          EXPECT_TRUE(seen.insert(documents[i]).second);
        }
        EXPECT_LE(tokens, 2 * job.sequence_len);
        if (strategy == config::PackingStrategy::kNone) {
          EXPECT_EQ(documents.size(), 2u);
        }
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), store->num_documents());
    }
  }
}

TEST(RecipeTest, SlotsOfPairsAreThoseOfTwoDocuments) {
  data::PreparedData data = DataOf({60, 50, 64, 64}, {});
  data.documents_per_unit = 2;
  config::JobSpec job = SmallJob();
  job.method = "dpo";
  const Recipe recipe = MustMake(job, data);
  EXPECT_EQ(recipe.bins_per_pass(0), 2);
  EXPECT_DOUBLE_EQ(recipe.packing_efficiency(), 238.0 / 256.0);
  job.packing.max_documents_per_bin = 1;
  EXPECT_NE(std::string(Recipe::Make(job, SmallModel(), data).status().message())
                .find("keeps 2 documents together"),
            std::string::npos);
}

using Change = std::function<void(config::JobSpec&)>;

// Invariant planner-3.
TEST(RecipeTest, QuantisingIsHashedAsItIsResolved) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  job.quantization = "auto";
  const std::string chosen = MustMake(job, data).hash();
  job.quantization = "nf4_double";
  EXPECT_EQ(MustMake(job, data).hash(), chosen);
  job.quantization = "nf4";
  EXPECT_NE(MustMake(job, data).hash(), chosen);
}

// Invariant planner-3: whatever fixes a number changes the hash.
TEST(RecipeTest, HashChangesWithEverythingThatFixesANumber) {
  const data::PreparedData data = SmallData(101);
  const std::string base = MustMake(SmallJob(), data).hash();
  ASSERT_EQ(base.size(), 32u);
  const std::vector<Change> changes = {
      [](auto& j) { j.init_seed = 1; },
      [](auto& j) { j.method = "pretrain"; },
      [](auto& j) { j.adapter = config::Adapter::kNone; },
      [](auto& j) { j.quantization = "int8"; },
      [](auto& j) { j.lora.r = 16; },
      [](auto& j) { j.lora.alpha = 16; },
      [](auto& j) { j.lora.dropout = 0.1; },
      [](auto& j) { j.lora.target_modules = {"q_proj"}; },
      [](auto& j) { j.lora.loraplus_lr_ratio = 1; },
      [](auto& j) { j.lora.use_rslora = true; },
      [](auto& j) { j.lora.use_dora = true; },
      [](auto& j) { j.lora.modules_to_save = {"lm_head"}; },
      [](auto& j) { j.lora.target_modules = {"embed_tokens"}; },
      [](auto& j) {
        j.lora.target_modules = {"embed_tokens"};
        j.lora.loraplus_lr_embedding = 1e-5;
      },
      [](auto& j) { j.method = "dpo"; },
      [](auto& j) {
        j.method = "dpo";
        j.preference.loss = {"ipo"};
        j.preference.loss_weights = {1};
      },
      [](auto& j) {
        j.method = "dpo";
        j.preference.loss = {"ipo"};
        j.preference.loss_weights = {2};
      },
      [](auto& j) { j.method = "dpo", j.preference.beta = 0.2; },
      [](auto& j) { j.method = "dpo", j.preference.label_smoothing = 0.2; },
      [](auto& j) { j.method = "dpo", j.preference.gamma = 0.2; },
      [](auto& j) { j.method = "dpo", j.preference.nll_weight = 0.2; },
      [](auto& j) { j.method = "dpo", j.preference.reference = "cached"; },
      [](auto& j) { j.method = "dpo", j.preference.desirable_weight = 0.2; },
      [](auto& j) { j.method = "dpo", j.preference.undesirable_weight = 0.2; },
      [](auto& j) { j.sequence_len = 128; },
      [](auto& j) { j.packing.strategy = config::PackingStrategy::kNone; },
      [](auto& j) { j.packing.max_documents_per_bin = 2; },
      [](auto& j) { j.train.global_batch_size = 6; },
      [](auto& j) { j.train.num_epochs = 2; },
      [](auto& j) { j.train.learning_rate = 2e-4; },
      [](auto& j) { j.train.lr_scheduler = config::LrScheduler::kLinear; },
      [](auto& j) { j.train.lr_scheduler = config::LrScheduler::kCosineWithRestarts; },
      [](auto& j) {
        j.train.lr_scheduler = config::LrScheduler::kCosineWithRestarts;
        j.train.lr_scheduler_kwargs.num_cycles = 2;
      },
      [](auto& j) { j.train.lr_scheduler = config::LrScheduler::kPolynomial; },
      [](auto& j) {
        j.train.lr_scheduler = config::LrScheduler::kPolynomial;
        j.train.lr_scheduler_kwargs.power = 2;
      },
      [](auto& j) { j.train.lr_scheduler = config::LrScheduler::kInverseSqrt; },
      [](auto& j) {
        j.train.lr_scheduler = config::LrScheduler::kInverseSqrt;
        j.train.lr_scheduler_kwargs.timescale = 7;
      },
      [](auto& j) { j.train.lr_scheduler = config::LrScheduler::kWarmupStableDecay; },
      [](auto& j) {
        j.train.lr_scheduler = config::LrScheduler::kWarmupStableDecay;
        j.train.lr_scheduler_kwargs.decay_ratio = 0.5;
      },
      [](auto& j) {
        j.train.lr_scheduler = config::LrScheduler::kWarmupStableDecay;
        j.train.lr_scheduler_kwargs.decay_type = config::DecayType::kLinear;
      },
      [](auto& j) { j.train.warmup_steps = 5; },
      [](auto& j) { j.train.min_lr_ratio = 0.1; },
      [](auto& j) { j.train.optimizer = OptimizerKind::kAdamW8bit; },
      [](auto& j) { j.train.optimizer = OptimizerKind::kAdamWBf16; },
      [](auto& j) { j.train.beta1 = 0.8; },
      [](auto& j) { j.train.beta2 = 0.95; },
      [](auto& j) { j.train.eps = 1e-6; },
      [](auto& j) { j.train.weight_decay = 0; },
      [](auto& j) { j.train.decay_norm_and_bias = false; },
      [](auto& j) { j.train.max_grad_norm = 2; },
      [](auto& j) { j.train.label_smoothing = 0.1; },
      [](auto& j) { j.train.z_loss = 1e-4; },
      [](auto& j) { j.train.seed = 43; },
      [](auto& j) { j.compute_dtype = Precision::kBfloat16; },
      [](auto& j) {
        j.compute_dtype = Precision::kBfloat16, j.master_dtype = Precision::kBfloat16;
      },
  };
  std::set<std::string> hashes = {base};
  for (size_t i = 0; i < changes.size(); ++i) {
    config::JobSpec job = SmallJob();
    changes[i](job);
    EXPECT_TRUE(hashes.insert(MustMake(job, data).hash()).second) << "change " << i;
  }
  model::ModelConfig model = SmallModel();
  model.rope.theta = 1e6;
  EXPECT_TRUE(hashes.insert(MustMake(SmallJob(), data, model).hash()).second);
  data::PreparedData other = SmallData(101);
  other.content_hash = std::string(64, 'b');
  EXPECT_TRUE(hashes.insert(MustMake(SmallJob(), other).hash()).second);
}

// Invariant planner-8: what was trained under one length is the beginning of a longer one.
TEST(RecipeTest, TheStemIsThatOfEveryLengthAndTheirStepsBeginAlike) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  job.train.num_epochs = 1.5;
  const Recipe shorter = MustMake(job, data);
  job.train.num_epochs = 3;
  const Recipe longer = MustMake(job, data);
  EXPECT_EQ(longer.stem(), shorter.stem());
  EXPECT_NE(longer.hash(), shorter.hash());
  for (int64_t step = 0; step < shorter.total_steps(); ++step) {
    ASSERT_EQ(longer.step_bins(step), shorter.step_bins(step)) << step;
    for (const BinRef bin : shorter.step_bins(step)) {
      EXPECT_TRUE(std::ranges::equal(longer.documents(bin), shorter.documents(bin)));
    }
  }
  job.train.num_epochs.reset();
  job.train.max_steps = 7;
  EXPECT_EQ(MustMake(job, data).stem(), shorter.stem());
}

TEST(RecipeTest, TheStemChangesWithAllButTheLength) {
  const data::PreparedData data = SmallData(101);
  std::set<std::string> stems = {MustMake(SmallJob(), data).stem()};
  const std::vector<Change> changes = {
      [](auto& j) { j.adapter = config::Adapter::kNone; },
      [](auto& j) { j.packing.max_documents_per_bin = 2; },
      [](auto& j) { j.train.global_batch_size = 6; },
      [](auto& j) { j.train.learning_rate = 2e-4; },
      [](auto& j) { j.train.lr_scheduler = config::LrScheduler::kLinear; },
      [](auto& j) { j.train.warmup_ratio = 0.5; },
      [](auto& j) { j.train.min_lr_ratio = 0.1; },
      [](auto& j) { j.train.lr_scheduler_kwargs.num_cycles = 3; },
      [](auto& j) { j.train.optimizer = OptimizerKind::kAdamW8bit; },
      [](auto& j) { j.train.seed = 43; },
      [](auto& j) { j.compute_dtype = Precision::kBfloat16; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    config::JobSpec job = SmallJob();
    changes[i](job);
    EXPECT_TRUE(stems.insert(MustMake(job, data).stem()).second) << "change " << i;
  }
}

TEST(ExtensionTest, SaysWhatChanges) {
  const data::PreparedData data = SmallData(101);
  config::JobSpec job = SmallJob();
  job.train.lr_scheduler = config::LrScheduler::kLinear;
  job.train.warmup_ratio = 0;
  job.train.num_epochs = 2;
  const Recipe recipe = MustMake(job, data);
  const int64_t half = recipe.total_steps() / 2;
  const std::string text = ExtensionText(job, recipe, half, half);
  for (const std::string& part :
       {absl::StrCat("extends a recipe of ", half, " steps to ", 2 * half, ", from step ", half),
        absl::StrCat("steps up to ", half, " are not trained again"),
        absl::StrFormat("has learning rate %.4g, step %d had %.4g", recipe.learning_rate(half),
                        half, job.train.learning_rate / static_cast<double>(half)),
        absl::StrCat("pass 2 goes on at its step 1 of ", half)}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
  EXPECT_NE(ExtensionText(job, recipe, 3, half).find("would have had"), std::string::npos);
}

// A checkpoint may be resumed with these changed.
TEST(RecipeTest, HashDoesNotChangeWithPlacementOrOutput) {
  const data::PreparedData data = SmallData(101);
  const std::string base = MustMake(SmallJob(), data).hash();
  const std::vector<Change> changes = {
      [](auto& j) { j.workers = 4; },
      [](auto& j) { j.name = "other"; },
      [](auto& j) { j.model_path = "/elsewhere"; },
      [](auto& j) { j.output_dir = "/out"; },
      [](auto& j) { j.save_steps = 7; },
      [](auto& j) { j.eval_steps = 7; },
      [](auto& j) { j.recompute = RecomputeLevel::kBlock; },
      [](auto& j) { j.train.micro_batch_size = 1; },
      [](auto& j) { j.train.gradient_accumulation_steps = 4; },
      [](auto& j) { j.export_merge = true; },
      [](auto& j) { j.export_gguf.model = "q8_0"; },
      [](auto& j) { j.priority = 3; },
      [](auto& j) { j.train.lr_scheduler_kwargs.power = 2; },  // cosine does not read it
      [](auto& j) { j.max_restarts = 0; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    config::JobSpec job = SmallJob();
    changes[i](job);
    EXPECT_EQ(MustMake(job, data).hash(), base) << "change " << i;
  }
  EXPECT_EQ(MustMake(SmallJob(), data).hash(), base);
}

// As jobs had no such line before there was a choice, what they did and `auto` have none.
TEST(RecipeTest, HashKnowsHowGradientsInBfloat16AreAddedWhereTheJobSaysIt) {
  const data::PreparedData data = SmallData(40);
  config::JobSpec job = SmallJob();
  job.compute_dtype = Precision::kBfloat16;
  const std::string hash = MustMake(job, data).hash();
  job.gradient_sum = "nearest";
  EXPECT_EQ(MustMake(job, data).hash(), hash);
  job.gradient_sum = "stochastic";
  const std::string stochastic = MustMake(job, data).hash();
  EXPECT_NE(stochastic, hash);
  job.gradient_sum = "compensated";
  EXPECT_NE(MustMake(job, data).hash(), hash);
  EXPECT_NE(MustMake(job, data).hash(), stochastic);
}

TEST(RecipeTest, HashKnowsWhatIsInFp8ButNotWhatIsKept) {
  const data::PreparedData data = SmallData(40);
  config::JobSpec job = SmallJob();
  std::set<std::string> hashes = {MustMake(job, data).hash()};
  job.fp8.emplace();
  EXPECT_TRUE(hashes.insert(MustMake(job, data).hash()).second);
  job.fp8->keeps_activations = job.fp8->keeps_weights = job.fp8->gathers_codes = true;
  EXPECT_FALSE(hashes.insert(MustMake(job, data).hash()).second);
  job.fp8->recipe = config::Fp8Recipe::kRowwise;
  EXPECT_TRUE(hashes.insert(MustMake(job, data).hash()).second);
  job.fp8->recipe = config::Fp8Recipe::kDelayed;
  EXPECT_TRUE(hashes.insert(MustMake(job, data).hash()).second);
  job.fp8->e4m3_gradients = true;
  EXPECT_TRUE(hashes.insert(MustMake(job, data).hash()).second);
  job.fp8->exclude = {"down_proj"};
  EXPECT_TRUE(hashes.insert(MustMake(job, data).hash()).second);
}

TEST(RecipeTest, HashKnowsAttentionInFp8) {
  const data::PreparedData data = SmallData(40);
  config::JobSpec job = SmallJob();
  job.fp8.emplace();
  const std::string without = MustMake(job, data).hash();
  job.fp8->attention = true;
  EXPECT_NE(MustMake(job, data).hash(), without);
}

// A job without experts has the hash that it had before there was a choice.
TEST(RecipeTest, HashKnowsExpertsInFp8OfAModelThatHasSome) {
  const data::PreparedData data = SmallData(40);
  config::JobSpec job = SmallJob();
  job.fp8.emplace();
  const auto hash = [&](const model::ModelConfig& model) {
    const auto recipe = Recipe::Make(job, model, data);
    EXPECT_TRUE(recipe.ok()) << recipe.status();
    return recipe.ok() ? recipe->hash() : "";
  };
  const std::string dense = hash(SmallModel()), mixture = hash(SmallExperts());
  job.fp8->experts = true;
  EXPECT_EQ(hash(SmallModel()), dense);
  EXPECT_NE(hash(SmallExperts()), mixture);
}

// A safetensors file whose data is `fill` throughout.
void WriteWeights(const std::string& folder, char fill) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]}})";
  const uint64_t size = header.size();
  std::ofstream(folder + "/model.safetensors", std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&size), 8) << header
      << std::string(100000, fill);
}

TEST(RecipeTest, HashKnowsTheWeightsButNotTheirPlace) {
  const data::PreparedData data = SmallData(40);
  const support::ScratchFolder folder;
  const std::string& root = folder.path();
  config::JobSpec job = SmallJob();
  job.init = BaseInit::kPretrained;
  job.model_path = root + "/a";
  EXPECT_EQ(Recipe::Make(job, SmallModel(), data).status().code(), absl::StatusCode::kNotFound);
  for (const char* name : {"/a", "/b", "/c"}) std::filesystem::create_directories(root + name);
  WriteWeights(root + "/a", 'x');
  WriteWeights(root + "/b", 'x');
  WriteWeights(root + "/c", 'y');
  const std::string hash = MustMake(job, data).hash();
  job.model_path = root + "/b";
  EXPECT_EQ(MustMake(job, data).hash(), hash);
  job.model_path = root + "/c";
  EXPECT_NE(MustMake(job, data).hash(), hash);
  job.model_path = root + "/a";
  job.lora.init_from = root + "/b";
  EXPECT_NE(MustMake(job, data).hash(), hash);
}

// Beside a file of safetensors that is not the model's.
TEST(RecipeTest, HashKnowsTheWeightsOfTorchFiles) {
  const data::PreparedData data = SmallData(40);
  const support::ScratchFolder folder;
  config::JobSpec job = SmallJob();
  job.init = BaseInit::kPretrained;
  job.model_path = folder.path();
  WriteWeights(folder.path(), 'x');
  std::filesystem::rename(folder.path() + "/model.safetensors",
                          folder.path() + "/other.safetensors");
  const auto hash_of = [&](char fill, const std::string& name) {
    std::ofstream(folder.path() + "/pytorch_model.bin", std::ios::binary)
        << archive::File({{.name = name, .elements = 25'000, .shape = {25'000}, .strides = {1}}},
                         std::string(100'000, fill));
    const Recipe recipe = MustMake(job, data);
    EXPECT_EQ(recipe.weights(), "pytorch_model.bin");
    return recipe.hash();
  };
  const std::string hash = hash_of('x', "a");
  EXPECT_EQ(hash_of('x', "a"), hash);
  EXPECT_NE(hash_of('y', "a"), hash);
  EXPECT_NE(hash_of('x', "b"), hash);
  WriteWeights(folder.path(), 'x');
  EXPECT_EQ(MustMake(job, data).weights(), "model.safetensors");
}

}  // namespace
}  // namespace coxswain::planner
