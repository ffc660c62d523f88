// W ranks with a GPU each end with the tensors of one rank, its evaluation and its answers.
// Invariant engine-5 on GPUs.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/worker/comm/cuda/nccl_rank.h"
#include "tests/worker/engine/support/rank_features.h"

namespace coxswain::engine {
namespace nccl_tensors_test {
namespace {

using comm::ThisRank;

class NcclTensors : public testing::TestWithParam<RankFeature> {};
INSTANTIATE_TEST_SUITE_P(Features, NcclTensors, testing::ValuesIn(RankFeatures()),
                         [](const auto& info) { return std::string(info.param.name); });

RankRun TrainThisRank(const plan::Plan& plan, int rank, const std::string& folder) {
  auto engine = Engine::Prepare(plan, rank, "");
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return {};
  if (plan.world_size() > 1) {
    auto group = comm::Form("ranks", plan.shard);
    EXPECT_NE(group, nullptr);
    if (group == nullptr || !(*engine)->Connect(std::move(group)).ok()) return {};
  }
  return TrainFeature(plan, rank, ThisRank().world, **engine, folder);
}

// What the ranks have, added up once all have written their tensors.
double SumOverRanks(double part) {
  const auto meeting = comm::MeetAt("held-back");
  EXPECT_TRUE(meeting->Set(absl::StrCat("rank", ThisRank().rank), absl::StrCat(part)).ok());
  double sum = 0;
  for (int rank = 0; rank < ThisRank().world; ++rank) {
    const auto text = meeting->Get(absl::StrCat("rank", rank), std::chrono::milliseconds(60000));
    double of_rank = 0;
    EXPECT_TRUE(text.ok() && absl::SimpleAtod(*text, &of_rank)) << rank;
    sum += of_rank;
  }
  return sum;
}

TEST_P(NcclTensors, RanksEndAsOneDoes) {
  const RankFeature& feature = GetParam();
  const std::string base = absl::StrCat(ThisRank().folder, "/tensors-", feature.name);
  const std::string many = base + "-many", one = absl::StrCat(base, "-one-", ThisRank().rank);
  std::filesystem::create_directories(many);
  std::filesystem::create_directories(one);
  const RankRun of_many =
      TrainThisRank(FeaturePlan(feature, ThisRank().world), ThisRank().rank, many);
  const double held_back = SumOverRanks(of_many.held_back_loss);
  const RankRun of_one = TrainThisRank(FeaturePlan(feature, 1), 0, one);
  EXPECT_NEAR(held_back / of_one.held_back_loss, 1.0, 1e-4);  // the sum passes as six digits
  EXPECT_EQ(of_many.answers, of_one.answers);
  ExpectTensorsNear(many, one, feature.tolerance);
}

}  // namespace
}  // namespace nccl_tensors_test
}  // namespace coxswain::engine
