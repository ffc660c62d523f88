#include "kernels/loss/policy_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace policy_loss_test {
namespace {

struct Batch {
  std::vector<DocumentRows> rows;
  Floats nll, old_logps, advantages, references;
};

// Documents of 1, 2, 3, 5, 7, 17 and 301 rows, some behind rows that are not scored; a place
// without a document, and a document without scored rows.
Batch Documents(unsigned seed = 11) {
  Batch batch;
  int32_t row = 0;
  for (const auto& [prompt, scored] : std::vector<std::pair<int32_t, int32_t>>{
           {0, 1}, {2, 2}, {0, 3}, {-1, 0}, {1, 5}, {3, 0}, {0, 7}, {0, 17}, {4, 301}}) {
    if (prompt < 0) {
      batch.rows.push_back({});
      continue;
    }
    batch.rows.push_back({.begin = row, .scored = row + prompt, .end = row + prompt + scored});
    row += prompt + scored;
  }
  batch.nll = Normal(row, seed);
  const Floats drift = Normal(row, seed + 1, 0.3f), apart = Normal(row, seed + 2, 0.4f);
  for (size_t i = 0; i < batch.nll.size(); ++i) {
    batch.nll[i] = std::abs(batch.nll[i]) + 0.1f;
    batch.old_logps.push_back(-batch.nll[i] + drift[i]);
    batch.references.push_back(-batch.nll[i] + apart[i]);
  }
  batch.advantages = Normal(row, seed + 3);
  return batch;
}

Doubles LogpsOf(const Batch& batch) {
  Doubles logps;
  for (const float nll : batch.nll) logps.push_back(-static_cast<double>(nll));
  return logps;
}

// The ratio of each row, by its own log-probability or by its document's.
Doubles RatiosOf(const PolicyLossSpec& spec, const Batch& batch, const Doubles& logps) {
  Doubles ratios(logps.size(), 1);
  for (const DocumentRows& rows : batch.rows) {
    double mean = 0;
    for (int32_t i = rows.scored; i < rows.end; ++i) {
      mean += (logps[Size(i)] - batch.old_logps[Size(i)]) / (rows.end - rows.scored);
    }
    for (int32_t i = rows.scored; i < rows.end; ++i) {
      ratios[Size(i)] =
          std::exp(spec.sequence_ratio ? mean : logps[Size(i)] - batch.old_logps[Size(i)]);
    }
  }
  return ratios;
}

// The formulas of policy_loss.h as TRL writes them: the sum whose gradient is wanted. `constant`:
// the ratios that CISPO takes for constants.
double FormulaLoss(const PolicyLossSpec& spec, const Batch& batch, const Doubles& logps,
                   const Doubles& constant) {
  const Doubles ratios = RatiosOf(spec, batch, logps);
  double sum = 0;
  for (const DocumentRows& rows : batch.rows) {
    double of_document = 0;
    for (int32_t i = rows.scored; i < rows.end; ++i) {
      const double a = batch.advantages[Size(i)], l = logps[Size(i)], r = ratios[Size(i)];
      double loss = -r * a;
      if (spec.objective == PolicyObjective::kCispo) {
        loss = -std::min(constant[Size(i)], spec.epsilon_high) * a * l;
      } else if (spec.objective == PolicyObjective::kClip) {
        const double capped = spec.delta > 0 ? std::min(r, spec.delta) : r;
        const double clamped = std::clamp(r, 1 - spec.epsilon_low, 1 + spec.epsilon_high);
        loss = -std::min(capped * a, clamped * a);
      }
      const double gain = batch.references[Size(i)] - l;
      of_document += loss + spec.kl_weight * (std::exp(gain) - gain - 1);
    }
    const bool mean = spec.normaliser == PolicyNormaliser::kSequences && rows.end > rows.scored;
    sum += mean ? of_document / (rows.end - rows.scored) : of_document;
  }
  return sum;
}

struct Results {
  double loss = 0;
  PolicySums reports;
  Floats weights;
};

constexpr float kUnwritten = -7.0f;

Results LossOf(const PolicyLossSpec& spec, const Batch& batch, double before = 0) {
  Results out{.loss = before, .reports = {}, .weights = Floats(batch.nll.size(), kUnwritten)};
  std::vector<PolicyPart> parts(batch.rows.size());
  const ExpectNoAllocation none;
  PolicyLoss({.spec = spec,
              .documents = static_cast<int64_t>(batch.rows.size()),
              .rows = batch.rows.data(),
              .nll = batch.nll.data(),
              .old_logps = batch.old_logps.data(),
              .advantages = batch.advantages.data(),
              .references = spec.kl_weight > 0 ? batch.references.data() : nullptr,
              .parts = parts.data(),
              .loss = &out.loss,
              .reports = &out.reports,
              .weights = out.weights.data()},
             nullptr);
  return out;
}

std::vector<PolicyLossSpec> AllSpecs() {
  std::vector<PolicyLossSpec> specs;
  for (const auto normaliser :
       {PolicyNormaliser::kTokens, PolicyNormaliser::kSequences, PolicyNormaliser::kConstant}) {
    for (const bool sequence : {false, true}) {
      for (const double kl : {0.0, 0.25}) {
        PolicyLossSpec spec{.normaliser = normaliser, .sequence_ratio = sequence, .kl_weight = kl};
        if (sequence) spec.epsilon_low = 0.03, spec.epsilon_high = 0.04;
        specs.push_back(spec);
        spec.delta = 1.5;
        specs.push_back(spec);
        spec.delta = 0;
        spec.objective = PolicyObjective::kImportance;
        specs.push_back(spec);
        spec.objective = PolicyObjective::kCispo;
        spec.epsilon_high = 1.1;
        specs.push_back(spec);
      }
    }
  }
  return specs;
}

std::string NameOf(const PolicyLossSpec& spec) {
  return "objective " + std::to_string(static_cast<int>(spec.objective)) + " normaliser " +
         std::to_string(static_cast<int>(spec.normaliser)) + " sequence " +
         std::to_string(spec.sequence_ratio) + " delta " + std::to_string(spec.delta) + " kl " +
         std::to_string(spec.kl_weight);
}

// Central differences with h: the truncation is h^2 f''' / 6, the rounding 2^-52 f / h. With h =
// 1e-4 and f, f''' below 300 both are below 1e-6; a weight is rounded to float32, by 2^-24 of
// itself. No ratio of the seed lies within h of a bound.
TEST(PolicyLossTest, LossesAreTheFormulasAndWeightsTheirGradients) {
  const Batch batch = Documents();
  constexpr double kH = 1e-4;
  for (const PolicyLossSpec& spec : AllSpecs()) {
    const Doubles logps = LogpsOf(batch), constant = RatiosOf(spec, batch, logps);
    const Results got = LossOf(spec, batch);
    const double want = FormulaLoss(spec, batch, logps, constant);
    EXPECT_NEAR(got.loss, want, 1e-11 * (1 + std::abs(want))) << NameOf(spec);
    for (const DocumentRows& rows : batch.rows) {
      for (int32_t row = rows.scored; row < rows.end; ++row) {
        Doubles up = logps, down = logps;
        up[Size(row)] += kH;
        down[Size(row)] -= kH;
        const double slope =
            (FormulaLoss(spec, batch, up, constant) - FormulaLoss(spec, batch, down, constant)) /
            (2 * kH);
        ASSERT_NEAR(got.weights[Size(row)], -slope, 1e-6 + kUnit * std::abs(slope))
            << NameOf(spec) << " row " << row;
      }
    }
  }
}

TEST(PolicyLossTest, RowsOfAPromptWeighNothingAndTheLossIsAddedTo) {
  const Batch batch = Documents();
  const Results got = LossOf({}, batch, 0.5);
  EXPECT_DOUBLE_EQ(got.loss, 0.5 + LossOf({}, batch).loss);
  for (const DocumentRows& rows : batch.rows) {
    for (int32_t row = rows.begin; row >= 0 && row < rows.scored; ++row) {
      EXPECT_EQ(got.weights[Size(row)], 0.0f) << row;
    }
  }
}

// A document of one row each: the ratio, the advantage, and the loss and weight that follow.
struct Point {
  double ratio;
  float advantage;
  double loss, weight;
};

void CheckPoints(const PolicyLossSpec& spec, const std::vector<Point>& points) {
  for (const Point& point : points) {
    const auto drift = static_cast<float>(std::log(point.ratio));
    const Batch batch{.rows = {{0, 0, 1}},
                      .nll = {2.0f},
                      .old_logps = {-2.0f - drift},
                      .advantages = {point.advantage},
                      .references = {}};
    const Results got = LossOf(spec, batch);
    // -2 - drift is rounded to float32, by 2^-23.
    EXPECT_NEAR(got.loss, point.loss, 1e-6 * (1 + std::abs(point.loss))) << point.ratio;
    EXPECT_NEAR(got.weights[0], point.weight, 1e-6 * (1 + std::abs(point.weight))) << point.ratio;
  }
}

// A gradient is cut where a step further would be to the policy's gain, and there alone.
TEST(PolicyLossTest, ClipsOneSideOfEachSign) {
  CheckPoints(
      {},
      {{1.0, 2, -2, 2}, {1.5, 2, -2.4, 0}, {0.5, 2, -1, 1}, {1.5, -2, 3, -3}, {0.5, -2, 1.6, 0}});
  CheckPoints({.delta = 1.4}, {{1.3, -2, 2.6, -2.6}, {1.5, -2, 2.8, 0}, {1.5, 2, -2.4, 0}});
}

TEST(PolicyLossTest, CispoBoundsTheWeightAndKeepsTheGradient) {
  CheckPoints({.objective = PolicyObjective::kCispo, .epsilon_high = 1.2},
              {{1.5, 2, 4.8, 2.4}, {1.1, 2, 4.4, 2.2}, {0.1, 2, 0.4, 0.2}, {1.5, -2, -4.8, -2.4}});
}

// Two documents, of five rows and of one: rows of the first are clipped low and high.
TEST(PolicyLossTest, ReportsRowsOrShares) {
  const auto at = [](double ratio) { return -2.0f - static_cast<float>(std::log(ratio)); };
  const Batch batch{.rows = {{0, 0, 5}, {5, 5, 6}},
                    .nll = Floats(6, 2.0f),
                    .old_logps = {at(0.5), at(1.5), at(1.5), at(1.1), at(0.9), at(2.0)},
                    .advantages = {-1, 1, -1, -1, 1, 1},
                    .references = Floats(6, -1.5f)};
  PolicySums got = LossOf({.kl_weight = 0.5}, batch).reports;
  EXPECT_EQ(got.clipped_low, 1);
  EXPECT_EQ(got.clipped_high, 2);
  EXPECT_EQ(got.clippable, 6);
  EXPECT_EQ(got.rows, 6);
  EXPECT_EQ(got.high_max, 1);
  EXPECT_EQ(got.not_low_max, 1);
  EXPECT_NEAR(got.ratio, 7.5, 1e-6);
  EXPECT_NEAR(got.kl, 6 * (std::exp(0.5) - 1.5), 1e-12);
  got = LossOf({.sequence_ratio = true, .epsilon_low = 0.01, .epsilon_high = 0.01}, batch).reports;
  EXPECT_EQ(got.clipped_low, 0);
  EXPECT_EQ(got.clipped_high, 1.4);  // the first's ratio is 1.02: two of its five rows
  EXPECT_EQ(got.clippable, 2);
  EXPECT_EQ(LossOf({.objective = PolicyObjective::kCispo, .epsilon_high = 1.2}, batch)
                .reports.clipped_high,
            2);
  EXPECT_EQ(LossOf({.objective = PolicyObjective::kImportance}, batch).reports.clipped_high, 0);
}

// Another document changes no bit, nor does a number in it that is not finite. Invariants
// kernels-3, kernels-5 and kernels-6.
TEST(PolicyLossTest, DocumentsDoNotSeeEachOther) {
  for (const PolicyLossSpec& spec : AllSpecs()) {
    const Batch batch = Documents();
    const Results before = LossOf(spec, batch);
    EXPECT_TRUE(SameBits(LossOf(spec, batch).weights, before.weights));
    Batch changed = batch;
    changed.advantages[Size(batch.rows[2].end - 1)] = std::numeric_limits<float>::quiet_NaN();
    const Results after = LossOf(spec, changed);
    EXPECT_TRUE(std::isnan(after.loss)) << NameOf(spec);
    EXPECT_TRUE(std::isnan(after.weights[Size(batch.rows[2].end - 1)])) << NameOf(spec);
    for (const size_t other : {1, 4, 7, 8}) {
      for (int32_t row = batch.rows[other].scored; row < batch.rows[other].end; ++row) {
        ASSERT_EQ(after.weights[Size(row)], before.weights[Size(row)]) << NameOf(spec);
      }
    }
  }
}

TEST(PolicyLossTest, NoDocumentsAndNoWeights) {
  double loss = 1;
  PolicySums reports;
  PolicyLoss({.loss = &loss, .reports = &reports}, nullptr);
  EXPECT_EQ(loss, 1);
  const Batch batch = Documents();
  std::vector<PolicyPart> parts(batch.rows.size());
  PolicyLoss({.documents = static_cast<int64_t>(batch.rows.size()),
              .rows = batch.rows.data(),
              .nll = batch.nll.data(),
              .old_logps = batch.old_logps.data(),
              .advantages = batch.advantages.data(),
              .parts = parts.data(),
              .loss = &loss,
              .reports = &reports},
             nullptr);
  EXPECT_DOUBLE_EQ(loss, 1 + LossOf({}, batch).loss);
}

TEST(PolicyLossTest, RefusesWhatIsNoSpec) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(PolicyLossSupports({}));
  for (const PolicyLossSpec& spec :
       std::vector<PolicyLossSpec>{{.objective = static_cast<PolicyObjective>(3)},
                                   {.normaliser = static_cast<PolicyNormaliser>(-1)},
                                   {.epsilon_low = -0.1},
                                   {.epsilon_high = nan},
                                   {.delta = -1},
                                   {.kl_weight = nan}}) {
    EXPECT_FALSE(PolicyLossSupports(spec)) << NameOf(spec);
  }
  EXPECT_THROW(PolicyLoss({.spec = {.delta = -1}}, nullptr), std::invalid_argument);
  EXPECT_THROW(PolicyLoss({.spec = {.kl_weight = 1}}, nullptr), std::invalid_argument);
  EXPECT_THROW(PolicyLoss({.documents = -1}, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace policy_loss_test
}  // namespace coxswain::kernels
