// Self-verification calls no healthy job broken: every family's golden model, trained in full and
// by adapters, with documents in which a token sees itself alone. Invariant engine-7.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace verified_families_test {
namespace {

class VerifiedFamiliesTest : public testing::TestWithParam<const char*> {};

// The first two batches say nothing about q and k: documents of two tokens, the first a target.
TrainStep StepOf(const BinBatch& golden, int64_t step) {
  if (step >= 2) return MakeStep(step, golden, 1e-3);
  BinBatch bins;
  bins.bin_ids = {0};
  bins.documents_per_bin = {3};
  bins.document_lengths = {2, 2, 2};
  for (size_t i = 0; i < 6; ++i) {
    bins.token_ids.push_back(golden.token_ids[i]);
    bins.targets.push_back(i % 2 == 0 ? 1 : 0);
  }
  return MakeStep(step, bins, 1e-3);
}

void ExpectHealthy(const plan::Plan& plan, const BinBatch& bins, bool short_documents) {
  std::string doing;
  auto state = MakeState(plan, 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  for (int64_t step = 0; step < 6; ++step) {
    const TrainStep train = short_documents ? StepOf(bins, step) : MakeStep(step, bins, 1e-3);
    const auto stats = RunTrainStep(**state, train);
    ASSERT_TRUE(stats.ok()) << "step " << step << ": " << stats.status();
  }
  EXPECT_TRUE((*state)->verification->finished());
}

TEST_P(VerifiedFamiliesTest, HealthyJobsPass) {
  const GoldenCase golden = LoadGoldenCase(GetParam());
  for (const int64_t rank : {0, 4}) {
    for (const bool dora : {false, true}) {
      if (dora && rank == 0) continue;
      PlanOptions options;
      options.model_path = golden.plan.model_path;
      options.lora_rank = rank;
      options.dora = dora;
      options.sequence_len = golden.plan.sequence_len;
      options.max_documents_per_bin = golden.plan.max_documents_per_bin;
      const plan::Plan plan = MakePlan(options);
      for (const bool short_documents : {false, true}) {
        SCOPED_TRACE(absl::StrCat("rank ", rank, dora ? ", DoRA" : "",
                                  short_documents ? ", short documents first" : ""));
        ExpectHealthy(plan, golden.bins, short_documents);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, VerifiedFamiliesTest, testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace verified_families_test
}  // namespace coxswain::engine
