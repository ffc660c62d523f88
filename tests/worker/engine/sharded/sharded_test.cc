// W ranks that share masters, gradients and weights compute what one rank computes. Invariant
// engine-5. No extent of the model divides by the ranks: flats are cut inside rows.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <tuple>

#include "common/plan/embedding_rows.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_test {
namespace {

constexpr int64_t kSteps = 20;

// kSaved: embedding, head and norms in full beside LoRA. kOuter: adapters of embedding and head.
// kNf4, kNf4Double, kInt8Dora: on a quantised base.
enum class Method { kFull, kLora, kDora, kSaved, kOuter, kNf4, kNf4Double, kInt8Dora };

struct Mesh {
  int32_t replicate = 1, shard = 1, zero = 0;
  int32_t vocab = static_cast<int32_t>(
      SmallConfig().vocab_size);  // kWide: ranks exchange rows of the embedding
};
constexpr int32_t kWide = 1031;

plan::Plan MakeCase(Method method, bool tied, const Mesh& mesh,
                    const std::string& recompute = "none", int64_t every = 1,
                    int64_t head_chunk = 40) {
  model::ModelConfig config = SmallConfig();
  config.tie_embeddings = tied;
  config.vocab_size = mesh.vocab;
  PlanOptions options;
  options.init = "random";
  options.lora_rank = method == Method::kFull ? 0 : 3;
  options.dora = method == Method::kDora || method == Method::kInt8Dora;
  if (method == Method::kNf4) options.quantization = "nf4";
  if (method == Method::kNf4Double) options.quantization = "nf4_double";
  if (method == Method::kInt8Dora) options.quantization = "int8";
  if (method == Method::kSaved) options.modules_to_save = {"embed_tokens", "lm_head", "norm"};
  if (method == Method::kOuter) {
    options.lora_targets = {"embed_tokens", "lm_head", "q_proj"};
    options.dropout = 0.2;
  }
  options.sequence_len = 40;
  options.micro_batch_bins = mesh.replicate * mesh.shard > 1 ? 1 : 2;  // several micro-steps a rank
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  options.recompute = recompute;
  options.recompute_every = every;
  options.head_chunk = head_chunk;
  return MakePlan(config, options);
}

BinBatch Bins(int64_t step) {
  return RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}, {13, 13, 13}},
                    SmallConfig().vocab_size, 100 + static_cast<uint64_t>(step));
}

struct Outcome {
  Ranks stats;
  std::vector<double> eval_loss;  // by rank, between two steps
  int64_t eval_hits = 0;          // of all ranks
  uint64_t collectives = 0;       // of rank 0
};

Outcome Train(const plan::Plan& plan, int64_t steps = kSteps) {
  const auto world = static_cast<size_t>(plan.world_size());
  Outcome run{Ranks(world), std::vector<double>(world)};
  std::atomic<int64_t> hits = 0;
  WithEngines(plan, "", [&](int rank, Engine& engine) {
    for (int64_t step = 0; step < steps; ++step) {
      TrainStep train = MakeStep(step, Bins(step));
      train.bins = PartOf(plan, train.bins, rank);
      const auto stats = engine.Train(train);
      ASSERT_TRUE(stats.ok()) << stats.status();
      run.stats[static_cast<size_t>(rank)].push_back(*stats);
      if (step != 1) continue;
      const auto eval = engine.Evaluate(PartOf(plan, Bins(7), rank));
      ASSERT_TRUE(eval.ok()) << eval.status();
      run.eval_loss[static_cast<size_t>(rank)] = eval->loss_sum;
      hits += eval->correct_targets;
    }
    if (rank == 0) run.collectives = engine.collectives().finished;
  });
  run.eval_hits = hits;
  return run;
}

// What one rank computes, once per model and method.
const Outcome& OneRank(Method method, bool tied, int32_t vocab = Mesh().vocab) {
  static auto* runs = new std::map<std::tuple<Method, bool, int32_t>, Outcome>;
  auto [found, added] = runs->try_emplace({method, tied, vocab});
  if (added) found->second = Train(MakeCase(method, tied, {1, 1, 0, vocab}));
  return found->second;
}

void ExpectEqual(const Outcome& many, const Outcome& one) {
  ExpectEqualRuns(many.stats, one.stats[0]);
  double loss = 0;
  for (const double part : many.eval_loss) loss += part;
  EXPECT_NEAR(loss / one.eval_loss[0], 1.0, 2e-6);
  EXPECT_EQ(many.eval_hits, one.eval_hits);
}

class ShardedTest : public testing::TestWithParam<std::tuple<Method, bool, Mesh>> {};

TEST_P(ShardedTest, RanksEqualOne) {
  const auto [method, tied, mesh] = GetParam();
  const plan::Plan plan = MakeCase(method, tied, mesh);
  EXPECT_EQ(plan::ExchangesEmbeddingRows(plan), mesh.vocab == kWide);
  ExpectEqual(Train(plan), OneRank(method, tied, mesh.vocab));
}

std::string CaseName(const testing::TestParamInfo<ShardedTest::ParamType>& info) {
  const auto& [method, tied, mesh] = info.param;
  const char* const names[] = {"Full",  "Lora", "Dora",      "Saved",
                               "Outer", "Nf4",  "Nf4Double", "Int8Dora"};
  return std::string(names[static_cast<int>(method)]) + (tied ? "Tied" : "Untied") +
         std::to_string(mesh.replicate) + "x" + std::to_string(mesh.shard) + "Zero" +
         std::to_string(mesh.zero) + (mesh.vocab == kWide ? "Wide" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Full, ShardedTest,
    testing::Combine(testing::Values(Method::kFull), testing::Bool(),
                     testing::Values(Mesh{1, 2, 1}, Mesh{1, 2, 2}, Mesh{1, 2, 3}, Mesh{1, 3, 1},
                                     Mesh{1, 3, 2}, Mesh{1, 3, 3}, Mesh{1, 4, 1}, Mesh{1, 4, 2},
                                     Mesh{1, 4, 3}, Mesh{2, 2, 2})),
    CaseName);
INSTANTIATE_TEST_SUITE_P(
    Adapters, ShardedTest,
    testing::Combine(testing::Values(Method::kLora, Method::kDora), testing::Bool(),
                     testing::Values(Mesh{1, 2, 1}, Mesh{1, 2, 2}, Mesh{1, 2, 3}, Mesh{1, 3, 3},
                                     Mesh{1, 4, 1}, Mesh{1, 4, 2}, Mesh{1, 4, 3}, Mesh{2, 2, 3})),
    CaseName);
INSTANTIATE_TEST_SUITE_P(SavedModules, ShardedTest,
                         testing::Combine(testing::Values(Method::kSaved), testing::Bool(),
                                          testing::Values(Mesh{3, 1, 0}, Mesh{1, 2, 1},
                                                          Mesh{1, 2, 2}, Mesh{1, 2, 3},
                                                          Mesh{1, 2, 1, kWide})),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OuterAdapters, ShardedTest,
                         testing::Combine(testing::Values(Method::kOuter), testing::Bool(),
                                          testing::Values(Mesh{2, 1, 0}, Mesh{1, 2, 1},
                                                          Mesh{1, 2, 2}, Mesh{1, 2, 3})),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(
    Quantized, ShardedTest,
    testing::Combine(testing::Values(Method::kNf4, Method::kNf4Double, Method::kInt8Dora),
                     testing::Bool(),
                     testing::Values(Mesh{2, 1, 0}, Mesh{1, 2, 2}, Mesh{1, 2, 3}, Mesh{1, 3, 3})),
    CaseName);
INSTANTIATE_TEST_SUITE_P(Replicas, ShardedTest,
                         testing::Combine(testing::Values(Method::kFull), testing::Values(true),
                                          testing::Values(Mesh{3, 1, 0}, Mesh{2, 2, 1},
                                                          Mesh{2, 2, 3})),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(
    WideVocabulary, ShardedTest,
    testing::Combine(testing::Values(Method::kFull), testing::Bool(),
                     testing::Values(Mesh{1, 2, 1, kWide}, Mesh{1, 3, 2, kWide},
                                     Mesh{1, 4, 3, kWide}, Mesh{2, 2, 1, kWide},
                                     Mesh{3, 1, 0, kWide})),
    CaseName);

// 8 steps: values that differ in their last bits can lie on two sides of a bound between codes, one
// in 10^5 and update, and then differ by a step of their state.
TEST(ShardedRunTest, StatesOfFewerBitsAreThoseOfOneRank) {
  // Adapters of rank 64 are in blocks, magnitudes of DoRA are too short for them.
  for (const auto& [optimizer, dora_rank] :
       {std::pair{"adamw_bf16", 0}, {"adamw_8bit", 0}, {"adamw_8bit", 64}}) {
    const auto train = [&, optimizer = optimizer, dora_rank = dora_rank](const Mesh& mesh) {
      PlanOptions options;
      options.init = "random";
      options.optimizer = optimizer;
      options.lora_rank = dora_rank;
      options.dora = dora_rank > 0;
      options.sequence_len = 40;
      options.replicate = mesh.replicate;
      options.shard = mesh.shard;
      options.zero = mesh.zero;
      return Train(MakePlan(BlockyConfig(), options), 8);
    };
    const Outcome one = train({});
    for (const Mesh& mesh : {Mesh{1, 2, 1}, Mesh{1, 3, 2}, Mesh{1, 4, 3}, Mesh{2, 2, 2}}) {
      ExpectEqual(train(mesh), one);
      ASSERT_FALSE(HasFailure()) << optimizer << " " << dora_rank << " " << mesh.replicate << "x"
                                 << mesh.shard << " ZeRO " << mesh.zero;
    }
  }
}

// Against one rank whose head goes in chunks.
TEST(ShardedRunTest, ACutHeadEqualsChunks) {
  const auto check = [](Method method, bool tied, const Mesh& mesh) {
    plan::Plan plan = MakeCase(method, tied, mesh);
    CutHead(&plan);
    ExpectEqual(Train(plan), OneRank(method, tied, mesh.vocab));
    ASSERT_FALSE(testing::Test::HasFailure())
        << tied << " " << mesh.replicate << "x" << mesh.shard << " ZeRO " << mesh.zero;
  };
  for (const bool tied : {true, false}) {
    for (const Mesh& mesh : {Mesh{1, 2, 3}, Mesh{2, 2, 2}, Mesh{1, 2, 1, kWide}}) {
      check(Method::kFull, tied, mesh);
    }
  }
  check(Method::kSaved, false, {1, 2, 1});
}

TEST(ShardedRunTest, RecomputedSegmentsAreGatheredAgain) {
  for (const int64_t every : {1, 2}) {
    const plan::Plan plan = MakeCase(Method::kFull, true, {1, 2, 3}, "block", every);
    ExpectEqual(Train(plan), OneRank(Method::kFull, true));
  }
  ExpectEqual(Train(MakeCase(Method::kLora, true, {1, 3, 3}, "ffn")), OneRank(Method::kLora, true));
}

// More slots for weights change what is gathered and no bit: with five of five blocks each is
// gathered once an update, and a frozen base once at all.
TEST(ShardedRunTest, ResidentBlocksAreNotGatheredAgain) {
  for (const int64_t rank : {0, 3}) {
    model::ModelConfig config = SmallConfig();
    config.num_layers = 5;
    config.layer_windows.assign(5, 0);
    PlanOptions options;
    options.init = "random";
    options.lora_rank = rank;
    options.sequence_len = 40;
    options.shard = 2;
    options.zero = 3;
    Outcome two;
    uint64_t before = UINT64_MAX;
    for (const auto& [slots, recompute] :
         {std::pair{2, "none"}, {3, "none"}, {4, "block"}, {5, "none"}}) {
      options.weight_slots = slots;
      options.recompute = recompute;
      options.recompute_every = 2;
      const Outcome run = Train(MakePlan(config, options), 3);
      if (slots == 2) two = run;
      for (size_t step = 0; step < 3; ++step) {
        EXPECT_EQ(run.stats[0][step].global_loss_sum, two.stats[0][step].global_loss_sum);
        EXPECT_EQ(run.stats[0][step].grad_norm, two.stats[0][step].grad_norm);
      }
      EXPECT_EQ(run.eval_loss, two.eval_loss);
      EXPECT_LT(run.collectives, before) << slots << " slots";
      before = run.collectives;
    }
  }
}

// Adapters lie beside the slots of a dequantised base: each block's is gathered once an update,
// whatever takes its slot in the three micro-steps, and reduced once. A sum of the norms is the
// last of a step. The base is of this rank alone.
TEST(ShardedRunTest, AdaptersOfAQuantisedBaseAreGatheredOnceAnUpdate) {
  for (const int32_t zero : {1, 2}) {
    model::ModelConfig config = SmallConfig();
    config.num_layers = 5;
    config.layer_windows.assign(5, 0);
    PlanOptions options;
    options.init = "random";
    options.lora_rank = 3;
    options.quantization = "nf4";
    options.sequence_len = 40;
    options.shard = 2;
    options.zero = zero;
    const plan::Plan plan = MakePlan(config, options);
    const uint64_t before = Train(plan, 3).collectives;
    const uint64_t reductions = zero == 1 ? 5 : 3 * 5;  // slots of gradients: every micro-step
    EXPECT_EQ(Train(plan, 4).collectives - before, 5 + reductions + 1) << "ZeRO " << zero;
  }
}

TEST(ShardedRunTest, TwoRunsGiveTheSameBits) {
  for (const Mesh& mesh : {Mesh{1, 3, 1}, Mesh{1, 3, 2}, Mesh{1, 3, 3}, Mesh{1, 3, 1, kWide}}) {
    const plan::Plan plan = MakeCase(Method::kFull, true, mesh);
    const Outcome first = Train(plan, 5), second = Train(plan, 5);
    for (size_t step = 0; step < 5; ++step) {
      EXPECT_EQ(first.stats[0][step].global_loss_sum, second.stats[0][step].global_loss_sum);
      EXPECT_EQ(first.stats[0][step].grad_norm, second.stats[0][step].grad_norm);
    }
    EXPECT_EQ(first.eval_loss, second.eval_loss);
  }
}

TEST(ShardedRunTest, ARankWithoutBinsJoinsTheOthers) {
  for (const Mesh& mesh : {Mesh{1, 2, 1}, Mesh{1, 2, 3}, Mesh{2, 1, 0}, Mesh{1, 2, 1, kWide}}) {
    const plan::Plan plan = MakeCase(Method::kFull, true, mesh);
    Ranks stats(2);
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 3; ++step) {
        TrainStep train = MakeStep(step, Bins(step));
        if (rank == 1) train.bins = BinBatch{};
        train.bins.micro_steps = 5;
        const auto result = engine.Train(train);
        ASSERT_TRUE(result.ok()) << result.status();
        stats[static_cast<size_t>(rank)].push_back(*result);
      }
    });
    std::vector<StepStats> one = OneRank(Method::kFull, true, mesh.vocab).stats[0];
    one.resize(3);
    ExpectEqualRuns(stats, one);
    EXPECT_EQ(stats[1][0].tokens, 0);
  }
}

TEST(ShardedRunTest, AllRanksSkipANonFiniteStep) {
  for (const Mesh& mesh : {Mesh{1, 3, 1}, Mesh{1, 2, 3}, Mesh{2, 2, 2}, Mesh{2, 1, 0}}) {
    const plan::Plan plan = MakeCase(Method::kFull, true, mesh);
    std::vector<int64_t> nonfinite(static_cast<size_t>(plan.world_size()));
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 3; ++step) {
        // The second rate overflows the masters; the next gradient is not finite.
        TrainStep train = MakeStep(step, Bins(step), step == 1 ? 1e38 : 1e-3);
        train.bins = PartOf(plan, train.bins, rank);
        const auto result = engine.Train(train);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->applied, step < 2) << "rank " << rank;
        nonfinite[static_cast<size_t>(rank)] = result->nonfinite;
      }
      EXPECT_EQ(engine.applied_updates(), 2);
    });
    EXPECT_GT(nonfinite[0], 0);
    for (const int64_t count : nonfinite) EXPECT_EQ(count, nonfinite[0]);
  }
}

TEST(ShardedRunTest, LinksAreMeasuredBetweenStepsAndChangeNothing) {
  for (const Mesh& mesh : {Mesh{1, 3, 3}, Mesh{2, 2, 1}}) {
    const plan::Plan plan = MakeCase(Method::kFull, true, mesh, "none", 1, /*head_chunk=*/80);
    const Outcome expected = Train(plan, 2);
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 2; ++step) {
        const auto links = engine.MeasureLinks();
        ASSERT_TRUE(links.ok()) << links.status();
        ASSERT_FALSE(links->empty());
        int64_t before = 0;
        for (const plan::LinkSpeed& link : *links) {
          EXPECT_GT(link.bytes, before);
          EXPECT_GT(link.bytes_per_second, 0);
          before = link.bytes;
        }
        TrainStep train = MakeStep(step, Bins(step));
        train.bins = PartOf(plan, train.bins, rank);
        const auto result = engine.Train(train);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->grad_norm, expected.stats[0][static_cast<size_t>(step)].grad_norm);
      }
    });
  }
}

TEST(ShardedRunTest, OverlapOffGivesTheSameBits) {
  for (const Mesh& mesh : {Mesh{1, 2, 3}, Mesh{1, 2, 1, kWide}}) {
    plan::Plan plan = MakeCase(Method::kFull, false, mesh);
    std::vector<double> norms[2];
    for (const bool overlap : {true, false}) {
      plan.overlap = overlap;
      const Outcome run = Train(plan, 3);
      for (const StepStats& step : run.stats[0]) norms[overlap].push_back(step.grad_norm);
    }
    EXPECT_EQ(norms[0], norms[1]);
  }
}

TEST(ShardedRunTest, FewerMicroStepsThanTheBinsTakeAreRefused) {
  WithEngines(MakeCase(Method::kFull, true, {}), "", [](int, Engine& engine) {
    TrainStep train = MakeStep(0, Bins(0));
    train.bins.micro_steps = 2;
    const absl::Status status = engine.Train(train).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  });
}

TEST(ShardedRunTest, EvaluateWithoutGroupIsRefused) {
  const auto engine = Engine::Prepare(MakeCase(Method::kFull, true, {1, 2, 3}), 1, "");
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->Evaluate(Bins(0)).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sharded_test
}  // namespace coxswain::engine
