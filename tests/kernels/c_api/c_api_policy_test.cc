#include "kernels/c_api/c_api.h"
#include "kernels/loss/policy_loss.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace c_api_policy_test {
namespace {

TEST(CApiPolicyTest, GivesTheBitsOfTheOp) {
  const DocumentRows rows[2] = {{0, 1, 4}, {4, 4, 6}};
  const Floats nll = {0.5f, 1.5f, 0.25f, 2, 0.75f, 1}, advantages = {0, 1, -1, 0.5f, 2, -2};
  const Floats old = {0, -1.25f, -0.5f, -2.5f, -0.7f, -0.5f}, references(6, -1.0f);
  const PolicyLossSpec spec{.normaliser = PolicyNormaliser::kSequences,
                            .sequence_ratio = true,
                            .epsilon_low = 0.125,
                            .epsilon_high = 0.25,
                            .delta = 1.5,
                            .kl_weight = 0.5};
  PolicyPart parts[2];
  double loss = 0;
  PolicySums reports;
  Floats weights(6);
  PolicyLoss({.spec = spec,
              .documents = 2,
              .rows = rows,
              .nll = nll.data(),
              .old_logps = old.data(),
              .advantages = advantages.data(),
              .references = references.data(),
              .parts = parts,
              .loss = &loss,
              .reports = &reports,
              .weights = weights.data()},
             nullptr);

  double c_loss = 0, c_reports[COXSWAIN_POLICY_SUMS] = {};
  Doubles c_parts(2 * COXSWAIN_POLICY_PARTS);
  Floats c_weights(6);
  coxswain_policy_loss_args args{};
  args.objective = COXSWAIN_POLICY_CLIP;
  args.normaliser = COXSWAIN_POLICY_SEQUENCES;
  args.sequence_ratio = 1;
  args.epsilon_low = 0.125;
  args.epsilon_high = 0.25;
  args.delta = 1.5;
  args.kl_weight = 0.5;
  args.documents = 2;
  args.rows = &rows[0].begin;
  args.nll = nll.data();
  args.old_logps = old.data();
  args.advantages = advantages.data();
  args.references = references.data();
  args.parts = c_parts.data();
  args.loss = &c_loss;
  args.reports = c_reports;
  args.weights = c_weights.data();
  ASSERT_EQ(coxswain_policy_loss(&args, nullptr), 0) << coxswain_last_error();
  EXPECT_EQ(c_loss, loss);
  EXPECT_EQ(c_reports[3], reports.kl);
  EXPECT_NE(reports.kl, 0);
  EXPECT_TRUE(SameBits(c_weights, weights));
  args.objective = 99;
  EXPECT_NE(coxswain_policy_loss(&args, nullptr), 0);
}

}  // namespace
}  // namespace c_api_policy_test
}  // namespace coxswain::kernels
