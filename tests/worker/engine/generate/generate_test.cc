// Answers against those of transformers, and the cache against whole texts. Invariant engine-10.
#include "worker/engine/generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/engine.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace generate_test {
namespace {

constexpr int64_t kLength = 80;

using Texts = std::vector<std::vector<int32_t>>;

// Generates `tokens` of each, the first `first` of them in a chunk of their own.
Texts Answers(Engine& engine, GenerateChunk chunk, int64_t first, int64_t tokens) {
  Texts answers(chunk.prompts.size());
  for (const int64_t part : {first, tokens - first}) {
    chunk.tokens = part;
    const absl::StatusOr<GenerateStats> stats = engine.Generate(chunk);
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) return answers;
    for (size_t i = 0; i < answers.size(); ++i) {
      const std::vector<int32_t>& ids = stats->texts[i].ids;
      answers[i].insert(answers[i].end(), ids.begin(), ids.end());
    }
    chunk.prompts.clear();
  }
  return answers;
}

class GoldenGenerateTest : public testing::TestWithParam<const char*> {
 protected:
  void ExpectAnswers(const plan::Plan& plan) const {
    auto engine = Engine::Prepare(plan, 0, "");
    ASSERT_TRUE(engine.ok()) << engine.status();
    const Texts answers = Answers(**engine, {.prompts = golden_.prompts}, 5, 24);
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_GE(answers[i].size(), golden_.answers[i].size());
      EXPECT_TRUE(
          std::equal(golden_.answers[i].begin(), golden_.answers[i].end(), answers[i].begin()))
          << "text " << i;
    }
  }

  const GoldenAnswers golden_ = LoadGoldenAnswers(GetParam());
  const plan::Plan plan_ = LoadGoldenCase(GetParam()).plan;
};

TEST_P(GoldenGenerateTest, AnswersAsTransformersDoes) {
  const auto texts = static_cast<int64_t>(golden_.prompts.size());
  ExpectAnswers(WithGeneration(plan_, texts, kLength));
  ExpectAnswers(OnlyGenerating(plan_, texts, kLength));
}

// Row `row` of the logits that the last choice was made from.
std::vector<float> Logits(const State& state) {
  return ReadFloats(state.buffers.logits, state.model.compute_dtype, state.plan.model.vocab_size);
}

// The text told token by token, against prompts of every length. The roundings of one sum more are
// what engine-1 allows of logits.
void ExpectLogitsOfWholeText(const plan::Plan& plan, const std::vector<int32_t>& text) {
  std::string doing;
  auto told = MakeState(OnlyGenerating(plan, 1, kLength), 0, "", &doing);
  auto whole = MakeState(OnlyGenerating(plan, 1, kLength), 0, "", &doing);
  ASSERT_TRUE(told.ok() && whole.ok()) << told.status();
  const size_t first = text.size() - 7;  // behind it: one by one
  const auto prompt = [&](size_t length) {
    GenerateChunk chunk{.prompts = {{text.begin(), text.begin() + static_cast<ptrdiff_t>(length)}}};
    chunk.tokens = 1;
    return chunk;
  };
  ASSERT_TRUE(RunGenerate(**told, prompt(first)).ok());
  for (size_t length = first + 1; length <= text.size(); ++length) {
    (*told)->generation->texts[0].last = text[length - 1];
    ASSERT_TRUE(RunGenerate(**told, {.tokens = 1}).ok());
    ASSERT_TRUE(RunGenerate(**whole, prompt(length)).ok());
    EXPECT_LE(RelativeError(Logits(**told), Logits(**whole)), 1e-5) << "of " << length << " tokens";
  }
}

TEST_P(GoldenGenerateTest, TheCacheGivesTheLogitsOfTheWholeText) {
  ExpectLogitsOfWholeText(plan_, golden_.prompts[1]);
}

// Heads of values may be narrower than those of keys.
TEST(BlockKindsGenerateTest, TheCacheGivesTheLogitsOfTheWholeText) {
  for (const BlockKind& kind : BlockKinds()) {
    SCOPED_TRACE(kind.name);
    PlanOptions options;
    options.init = "random";
    ExpectLogitsOfWholeText(MakePlan(kind.config, options), {5, 6, 7, 8, 9, 1, 2, 3, 4, 11, 12});
  }
}

// Texts that may become long ones, from their first token on; and those that cannot.
TEST(LongRopeGenerateTest, TheCacheGivesTheLogitsOfTheWholeText) {
  for (const int64_t original : {int64_t{7}, kLength}) {
    PlanOptions options;
    options.init = "random";
    ExpectLogitsOfWholeText(MakePlan(LongRopeConfig(original), options),
                            {5, 6, 7, 8, 9, 1, 2, 3, 4, 11, 12});
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenGenerateTest, testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param); });

class GenerateTest : public testing::Test {
 protected:
  GenerateTest() {
    PlanOptions options;
    options.init = "random";
    options.micro_batch_bins = 2;  // three texts in two sweeps
    plan_ = WithGeneration(MakePlan(SmallConfig(), options), 3, 20);
    engine_ = std::move(*Engine::Prepare(plan_, 0, ""));
  }

  GenerateChunk Chunk(Sampling sampling = {}) const {
    return {.prompts = {{5, 6, 7}, {9}, {1, 2, 3, 4, 5, 6, 7}}, .tokens = 9, .sampling = sampling};
  }
  Texts Run(const GenerateChunk& chunk) { return Answers(*engine_, chunk, 4, chunk.tokens); }

  plan::Plan plan_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(GenerateTest, EndsBehindAnEndAndAtTheLengthOfThePlan) {
  GenerateChunk chunk = Chunk();
  chunk.tokens = 100;
  const auto free = engine_->Generate(chunk);
  ASSERT_TRUE(free.ok()) << free.status();
  for (size_t i = 0; i < chunk.prompts.size(); ++i) {
    EXPECT_TRUE(free->texts[i].ended && free->texts[i].cut);
    EXPECT_EQ(free->texts[i].ids.size(), 20 - chunk.prompts[i].size());
  }
  const std::vector<int32_t>& ids = free->texts[0].ids;
  chunk.ends = {130, ids[3]};
  const auto ended = engine_->Generate(chunk);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->texts[0].ids,
            std::vector<int32_t>(ids.begin(), std::find(ids.begin(), ids.end(), ids[3])));
  EXPECT_TRUE(engine_->Generate({.tokens = 5})->texts[0].ids.empty());  // it stays ended
}

TEST_F(GenerateTest, DrawsAreOfSeedTextAndPositionAlone) {
  const Texts first = Run(Chunk({.temperature = 1.5, .seed = 7}));
  EXPECT_EQ(Run(Chunk({.temperature = 1.5, .seed = 7})), first);
  EXPECT_NE(Run(Chunk({.temperature = 1.5, .seed = 8})), first);
  EXPECT_NE(Run(Chunk()), first);
  GenerateChunk alone = Chunk({.temperature = 1.5, .seed = 7});
  alone.prompts.resize(1);
  EXPECT_EQ(Run(alone)[0], first[0]);
}

TEST_F(GenerateTest, OneChoiceIsGreedy) {
  EXPECT_EQ(Run(Chunk({.temperature = 1, .top_k = 1})), Run(Chunk()));
  EXPECT_EQ(Run(Chunk({.temperature = 1, .top_p = 1e-9})), Run(Chunk()));
}

// Generating between two steps changes no bit of training.
TEST_F(GenerateTest, LeavesTrainingAsItIs) {
  auto other = std::move(*Engine::Prepare(plan_, 0, ""));
  TrainStep step;
  step.bins = {{0}, {1}, {4}, {1, 2, 3, 4}, {1, 1, 1, 0}};
  step.loss_denominator = 3;
  step.learning_rate = 1e-3;
  for (; step.step < 3; ++step.step) {
    Run(Chunk());
    const auto a = engine_->Train(step), b = other->Train(step);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status();
    EXPECT_EQ(a->loss_sum, b->loss_sum);
    EXPECT_EQ(a->grad_norm, b->grad_norm);
  }
}

// A plan that trains nothing takes the trained values, whatever recipe trained them.
TEST_F(GenerateTest, ACheckpointAnswersAsTheEngineThatWroteIt) {
  const Texts before = Run(Chunk());
  for (int64_t step = 0; step < 3; ++step) {
    TrainStep train = MakeStep(step, RandomBins({{20}, {9, 7}}, plan_.model.vocab_size, 3), 0.05);
    ASSERT_TRUE(engine_->Train(train).ok());
  }
  const Texts after = Run(Chunk());
  EXPECT_NE(after, before);
  const support::ScratchFolder folder;
  ASSERT_TRUE(engine_->Snapshot(3).ok());
  ASSERT_TRUE(engine_->SaveShard(folder.path(), 3).ok());
  SealCheckpoint(folder.path());
  plan::Plan plan = OnlyGenerating(plan_, 3, 20);
  plan.recipe_hash = std::string(32, 'q');
  auto reader = Engine::Prepare(plan, 0, folder.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->start_step(), 0);
  EXPECT_EQ(Answers(**reader, Chunk(), 4, 9), after);
}

TEST_F(GenerateTest, APlanThatTrainsNothingTakesNoStep) {
  auto reader = Engine::Prepare(OnlyGenerating(plan_, 3, 20), 0, "");
  ASSERT_TRUE(reader.ok()) << reader.status();
  const BinBatch bins = RandomBins({{20}}, plan_.model.vocab_size, 3);
  for (const absl::Status& status : {(*reader)->Train(MakeStep(0, bins)).status(),
                                     (*reader)->Evaluate(bins).status(), (*reader)->Snapshot(0)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  }
}

TEST_F(GenerateTest, RefusesWhatThePlanHasNoRoomFor) {
  const auto refused = [&](const GenerateChunk& chunk, const char* what) {
    const absl::Status status = engine_->Generate(chunk).status();
    EXPECT_NE(status.ToString().find(what), std::string::npos) << status;
  };
  refused({.tokens = 1}, "prompts come first");
  refused({.prompts = {{1}}}, "0 tokens");
  refused({.prompts = {{1}, {1}, {1}, {1}}, .tokens = 1}, "4 texts, the plan has room for 3");
  refused({.prompts = {std::vector<int32_t>(20, 1)}, .tokens = 1}, "text 0 has 20 tokens");
  refused({.prompts = {{}}, .tokens = 1}, "text 0 has 0 tokens");
  refused({.prompts = {{131}}, .tokens = 1}, "id 131");
  refused({.prompts = {{1}}, .tokens = 1, .sampling = {.temperature = -1}}, "temperature -1");
  PlanOptions options;
  options.init = "random";
  engine_ = std::move(*Engine::Prepare(MakePlan(SmallConfig(), options), 0, ""));
  refused(Chunk(), "no memory");
}

}  // namespace
}  // namespace generate_test
}  // namespace coxswain::engine
