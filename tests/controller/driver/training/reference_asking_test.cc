// Log-probabilities that a preference job asks for beside its steps: of the start, once, and of the
// KL term, before each step. A gang of two ranks answers minus the document's number.
#include "controller/driver/training/reference_asking.h"

#include <gtest/gtest.h>

#include "controller/driver/training/kl_asking.h"
#include "tests/sim/fakes/synthetic_curriculum.h"

namespace coxswain::driver {
namespace reference_asking_test {
namespace {

// Bin b holds the documents 2 b, whose loss is taken, and 2 b + 1.
class RecordsCurriculum final : public sim::SyntheticCurriculum {
 public:
  RecordsCurriculum(bool has_kl, bool base)
      : SyntheticCurriculum({.steps = 2, .bins_per_step = 2, .eval_bins = 1}),
        has_kl_(has_kl),
        base_(base) {}

  bool document_loss() const override { return true; }
  bool keeps_references() const override { return !base_; }
  bool has_kl() const override { return has_kl_; }
  bool reference_is_base() const override { return base_; }
  std::vector<int64_t> Documents(int64_t step, std::span<const int64_t> ids,
                                 Side side) const override {
    std::vector<int64_t> documents;
    for (const int64_t id : ids) documents.push_back(2 * id + (side == Side::kMismatched));
    return documents;
  }

 private:
  const bool has_kl_, base_;
};

std::shared_ptr<const Batch> Deal(std::span<const BinSize> bins) {
  auto batch = std::make_shared<Batch>();
  batch->bins.resize(2);
  batch->forms.resize(2);
  for (size_t i = 0; i < bins.size(); ++i) batch->bins[i % 2].push_back(bins[i].id);
  return batch;
}

// What two ranks say of an order: `scale` times the number of each document.
gang::InFlight AnswerTo(const Curriculum& curriculum, const gang::Order& order,
                        std::span<const BinSize> bins, int64_t step, Side side, double scale) {
  gang::InFlight command{.turn = order.turn, .phase = order.phase, .step = order.step};
  const std::shared_ptr<const Batch> batch = Deal(bins);
  for (const std::vector<int64_t>& ids : batch->bins) {
    v1::Done& done = command.results.emplace_back(v1::Done()).value();
    for (const int64_t document : curriculum.Documents(step, ids, side)) {
      done.add_log_probs(scale * static_cast<double>(document));
    }
  }
  return command;
}

// Invariant driver-14.
TEST(ReferenceAskingTest, AsksForEveryDocumentOnceAndWaitsUntilTheyAreKept) {
  const RecordsCurriculum curriculum(/*has_kl=*/false, /*base=*/false);
  const std::vector<BinSize> eval = curriculum.eval_bins();
  std::shared_ptr<const ReferenceSums> told;
  ReferenceAsking asking(&curriculum, {eval}, nullptr,
                         [&](std::shared_ptr<const ReferenceSums> sums) { told = sums; });
  for (int64_t part = 0; part < 3; ++part) {
    const int64_t step = part < 2 ? part : -1;
    const std::vector<BinSize> bins = step < 0 ? eval : curriculum.step_bins(step);
    ASSERT_TRUE(asking.pending());
    const std::optional<gang::Order> order = asking.Ask(Deal);
    ASSERT_TRUE(order.has_value());
    EXPECT_EQ(order->command.log_probs().held_out(), step < 0);
    EXPECT_EQ(told, nullptr);
    ASSERT_TRUE(asking.Take(AnswerTo(curriculum, *order, bins, step, Side::kTrained, -1)).ok());
  }
  EXPECT_FALSE(asking.Ask(Deal).has_value());
  ASSERT_NE(told, nullptr);
  EXPECT_TRUE(asking.pending()) << "not durable yet";
  EXPECT_EQ(told->train[6], -6);
  EXPECT_EQ(told->held_out[0], 0);
  asking.Kept();
  EXPECT_FALSE(asking.pending());
  EXPECT_EQ(asking.SumsOf(1, std::vector<int64_t>{2, 3}, Side::kTrained),
            (std::vector<double>{-4, -6}));
}

TEST(ReferenceAskingTest, NamesARankThatTellsOfOtherDocuments) {
  const RecordsCurriculum curriculum(false, false);
  ReferenceAsking asking(&curriculum, {}, nullptr, [](auto) {});
  const std::optional<gang::Order> order = asking.Ask(Deal);
  gang::InFlight command =
      AnswerTo(curriculum, *order, curriculum.step_bins(0), 0, Side::kTrained, -1);
  command.results[1]->add_log_probs(0);
  const absl::Status taken = asking.Take(command);
  EXPECT_EQ(taken.message(), "log_probs: rank 1 was sent 1 documents and tells of 2");
}

// The policy says -1 times the number of a document, the base -2 times: 3 and 1, so 1 and 3 apart.
TEST(KlAskingTest, TheBaseIsAskedRightBehindThePolicy) {
  const RecordsCurriculum curriculum(true, /*base=*/true);
  const ReferenceAsking none(&curriculum, {}, nullptr, [](auto) {});
  KlAsking kl(&curriculum, &none);
  EXPECT_FALSE(kl.Knows(0));
  const std::vector<BinSize> bins = curriculum.step_bins(0);
  const std::span<const BinSize> parts[] = {bins};
  for (const double scale : {-1.0, -2.0}) {
    const std::optional<gang::Order> order = kl.Ask(0, parts, Deal);
    ASSERT_TRUE(order.has_value());
    EXPECT_EQ(order->command.log_probs().without_adapters(), scale == -2.0);
    EXPECT_TRUE(kl.InProgress());
    ASSERT_TRUE(kl.Take(AnswerTo(curriculum, *order, bins, 0, Side::kMismatched, scale)).ok());
  }
  EXPECT_TRUE(kl.Knows(0));
  EXPECT_FALSE(kl.InProgress());
  EXPECT_TRUE(kl.Holds()) << "until a step has taken it";
  EXPECT_EQ(kl.kl(), 2);  // the mean of 1 and 3
  kl.Forget();
  EXPECT_FALSE(kl.Knows(0));
  EXPECT_FALSE(kl.Holds());
}

TEST(KlAskingTest, TheTermIsNeverBelowZero) {
  const RecordsCurriculum curriculum(true, true);
  const ReferenceAsking none(&curriculum, {}, nullptr, [](auto) {});
  KlAsking kl(&curriculum, &none);
  const std::vector<BinSize> bins = curriculum.step_bins(0);
  const std::span<const BinSize> parts[] = {bins};
  for (const double scale : {-2.0, -1.0}) {
    const std::optional<gang::Order> order = kl.Ask(0, parts, Deal);
    ASSERT_TRUE(kl.Take(AnswerTo(curriculum, *order, bins, 0, Side::kMismatched, scale)).ok());
  }
  EXPECT_EQ(kl.kl(), 0);
}

TEST(KlAskingTest, WithoutSuchATermItIsAlwaysKnown) {
  const RecordsCurriculum curriculum(false, true);
  const ReferenceAsking none(&curriculum, {}, nullptr, [](auto) {});
  EXPECT_TRUE(KlAsking(&curriculum, &none).Knows(3));
}

}  // namespace
}  // namespace reference_asking_test
}  // namespace coxswain::driver
