// The function of kernels/c_api/documents.h on the device against the terms of
// kernels/loss/policy_terms.h on the host. Sums of doubles in another order are off by n 2^-53 of
// the sum of the magnitudes, exponentials by 2^-51: with n < 8,192 rows by less than 1e-11.
#include <cmath>
#include <vector>

#include "kernels/loss/policy_terms.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_policy_test {
namespace {

constexpr int64_t kDocuments = 301;

struct Batch {
  std::vector<DocumentRows> rows;
  Floats nll, old_logps, advantages, references;
};

// Of up to 6 rows that are not scored, then 0 to 40, one document 777; some places are empty.
Batch Make() {
  Batch out;
  int32_t row = 0;
  for (int64_t i = 0; i < kDocuments; ++i) {
    if (i % 17 == 3) {
      out.rows.push_back({});
      continue;
    }
    const auto prompt = static_cast<int32_t>(i % 7);
    const auto scored = static_cast<int32_t>(i == 200 ? 777 : i * 13 % 41);
    out.rows.push_back({.begin = row, .scored = row + prompt, .end = row + prompt + scored});
    row += prompt + scored;
  }
  out.nll = Normal(row, 3, DType::kFloat32);
  out.old_logps = Normal(row, 4, DType::kFloat32);
  out.advantages = Normal(row, 5, DType::kFloat32);
  out.references = Normal(row, 6, DType::kFloat32);
  for (size_t i = 0; i < out.nll.size(); ++i) {
    out.nll[i] = std::abs(out.nll[i]) + 0.1f;
    out.old_logps[i] = -out.nll[i] + 0.3f * out.old_logps[i];
    out.references[i] = -out.nll[i] + 0.3f * out.references[i];
  }
  return out;
}

struct Results {
  double loss = 0.5;
  PolicySums reports;
  Floats weights;
};

Results OnHost(const PolicyLossSpec& spec, const Batch& batch) {
  Results out{.loss = 0.5, .reports = {}, .weights = Floats(batch.nll.size(), 0.0f)};
  const PolicyLossArgs args{.spec = spec,
                            .rows = batch.rows.data(),
                            .nll = batch.nll.data(),
                            .old_logps = batch.old_logps.data(),
                            .advantages = batch.advantages.data(),
                            .references = batch.references.data()};
  for (const DocumentRows& rows : batch.rows) {
    if (rows.begin < 0 || rows.scored == rows.end) continue;
    const double count = rows.end - rows.scored;
    double mean = 0;
    for (int32_t row = rows.scored; row < rows.end; ++row) mean += LogRatioOf(args, row) / count;
    PolicyPart part;
    for (int32_t row = rows.scored; row < rows.end; ++row) {
      AddRow(PolicyValueAt(args, row, mean), &part);
    }
    for (int32_t row = rows.scored; row < rows.end; ++row) {
      out.weights[Size(row)] =
          PolicyWeight(spec, PolicyValueAt(args, row, mean), part.slope, count);
    }
    out.loss += part.loss * RowFactor(spec, count);
    AddReport(PolicyReport(spec, part, count), &out.reports);
  }
  return out;
}

void ExpectNear(const PolicySums& got, const PolicySums& want) {
  const auto near = [](double a, double b) { EXPECT_NEAR(a, b, 1e-11 * (1 + std::abs(b))); };
  near(got.clipped_low, want.clipped_low);
  near(got.clipped_high, want.clipped_high);
  near(got.clippable, want.clippable);
  near(got.kl, want.kl);
  near(got.ratio, want.ratio);
  near(got.rows, want.rows);
  near(got.high_max, want.high_max);
  near(got.not_low_max, want.not_low_max);
}

class CApiPolicyGpuTest : public testing::Test {
 protected:
  coxswain_policy_loss_args Args(const PolicyLossSpec& spec) const {
    coxswain_policy_loss_args args{};
    args.objective = static_cast<int32_t>(spec.objective);
    args.normaliser = static_cast<int32_t>(spec.normaliser);
    args.sequence_ratio = spec.sequence_ratio ? 1 : 0;
    args.epsilon_low = spec.epsilon_low;
    args.epsilon_high = spec.epsilon_high;
    args.delta = spec.delta;
    args.kl_weight = spec.kl_weight;
    args.documents = kDocuments;
    args.rows = &rows_.data()->begin;
    args.nll = nll_.data();
    args.old_logps = old_.data();
    args.advantages = advantages_.data();
    args.references = references_.data();
    args.parts = &parts_.data()->loss;
    return args;
  }

  Results Run(const PolicyLossSpec& spec) const {
    const DeviceValues<double> loss(std::vector<double>{0.5});
    const DeviceValues<PolicySums> reports(std::vector<PolicySums>(1));
    const DeviceTensor weights(DType::kFloat32, Floats(host_.nll.size(), -7.0f));
    coxswain_policy_loss_args args = Args(spec);
    args.loss = loss.data();
    args.reports = &reports.data()->clipped_low;
    args.weights = weights.floats();
    EXPECT_OK(coxswain_policy_loss(&args, nullptr));
    Synchronize(nullptr);
    return {.loss = loss.Read()[0], .reports = reports.Read()[0], .weights = weights.Read()};
  }

  const Batch host_ = Make();
  const DeviceValues<DocumentRows> rows_{host_.rows};
  const DeviceValues<float> nll_{host_.nll}, old_{host_.old_logps}, advantages_{host_.advantages},
      references_{host_.references};
  const DeviceValues<PolicyPart> parts_{std::vector<PolicyPart>(kDocuments)};
};

TEST_F(CApiPolicyGpuTest, LossReportsAndWeights) {
  for (const auto objective :
       {PolicyObjective::kImportance, PolicyObjective::kClip, PolicyObjective::kCispo}) {
    for (const bool sequence : {false, true}) {
      const PolicyLossSpec spec{
          .objective = objective,
          .normaliser = sequence ? PolicyNormaliser::kSequences : PolicyNormaliser::kTokens,
          .sequence_ratio = sequence,
          .epsilon_high = objective == PolicyObjective::kCispo ? 1.2 : 0.28,
          .delta = sequence ? 0 : 1.5,
          .kl_weight = 0.25};
      const Results got = Run(spec), want = OnHost(spec, host_);
      EXPECT_NEAR(got.loss, want.loss, 1e-11 * (1 + std::abs(want.loss)));
      ExpectNear(got.reports, want.reports);
      for (size_t i = 0; i < want.weights.size(); ++i) {
        ASSERT_NEAR(got.weights[i], want.weights[i], 2e-7 * (1 + std::abs(want.weights[i]))) << i;
      }
      const Results again = Run(spec);
      EXPECT_EQ(again.loss, got.loss);
      EXPECT_TRUE(SameBits(again.weights, got.weights));
    }
  }
}

TEST_F(CApiPolicyGpuTest, RefusesWhatIsNoSpec) {
  coxswain_policy_loss_args args = Args({.delta = -1});
  EXPECT_REFUSED(coxswain_policy_loss(&args, nullptr), "PolicyLoss");
  args = Args({.kl_weight = 1});
  args.references = nullptr;
  EXPECT_REFUSED(coxswain_policy_loss(&args, nullptr), "PolicyLoss");
}

}  // namespace
}  // namespace gpu_c_api_policy_test
}  // namespace coxswain::kernels
