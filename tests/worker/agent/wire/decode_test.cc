#include "worker/agent/wire/decode.h"

#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::agent {
namespace {

constexpr BinLimits kLimits{/*vocab_size=*/100, /*sequence_len=*/8, /*max_documents_per_bin=*/2};

// Two bins: documents of 3 and 5 tokens, and of 1; targets at 0, 1, 3, 6.
v1::Bins TwoBins() {
  v1::Bins bins;
  bins.add_bin_ids(4);
  bins.add_bin_ids(9);
  bins.add_documents_per_bin(2);
  bins.add_documents_per_bin(1);
  for (const int length : {3, 5, 1}) bins.add_document_lengths(length);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 99};
  bins.set_token_ids(std::string(reinterpret_cast<const char*>(tokens.data()), 36));
  bins.set_targets(std::string("\x4b\x00", 2));
  return bins;
}

TEST(DecodeTest, UnpacksTokensAndTargets) {
  const auto batch = DecodeBins(TwoBins(), kLimits);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->bin_ids, (std::vector<int64_t>{4, 9}));
  EXPECT_EQ(batch->documents_per_bin, (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(batch->document_lengths, (std::vector<int32_t>{3, 5, 1}));
  EXPECT_EQ(batch->token_ids, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 99}));
  EXPECT_EQ(batch->targets, (std::vector<uint8_t>{1, 1, 0, 1, 0, 0, 1, 0, 0}));
}

TEST(DecodeTest, EmptyBinsAreAnEmptyBatch) {
  const auto batch = DecodeBins(v1::Bins(), kLimits);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_TRUE(batch->token_ids.empty());
}

// Invariant agent-8: every way to be malformed is refused, naming the field.
TEST(DecodeTest, RefusesEachMalformedField) {
  struct Case {
    const char* named;
    std::function<void(v1::Bins&)> breaks;
  };
  const auto token = [](v1::Bins& b, int t, int32_t id) {
    b.mutable_token_ids()->replace(4 * t, 4, reinterpret_cast<const char*>(&id), 4);
  };
  const std::vector<Case> cases = {
      {"documents_per_bin", [](v1::Bins& b) { b.add_documents_per_bin(1); }},
      {"bin_ids[1] is -1", [](v1::Bins& b) { b.set_bin_ids(1, -1); }},
      {"documents_per_bin[0] is 0", [](v1::Bins& b) { b.set_documents_per_bin(0, 0); }},
      {"documents_per_bin[0] is 3", [](v1::Bins& b) { b.set_documents_per_bin(0, 3); }},
      {"counts more documents", [](v1::Bins& b) { b.set_documents_per_bin(1, 2); }},
      {"documents_per_bin counts 2", [](v1::Bins& b) { b.set_documents_per_bin(0, 1); }},
      {"document_lengths[1] is 0", [](v1::Bins& b) { b.set_document_lengths(1, 0); }},
      {"has 9 tokens, the plan's capacity is 8", [](v1::Bins& b) { b.set_document_lengths(0, 4); }},
      {"35 bytes of token_ids, expected 36",
       [](v1::Bins& b) { b.mutable_token_ids()->pop_back(); }},
      {"token_ids[8] is 100, the vocabulary has 100", [&](v1::Bins& b) { token(b, 8, 100); }},
      {"token_ids[0] is -1", [&](v1::Bins& b) { token(b, 0, -1); }},
      {"1 bytes of targets, expected 2", [](v1::Bins& b) { b.set_targets("\x4b"); }},
      {"targets bit 9 is set beyond",
       [](v1::Bins& b) { b.set_targets(std::string("\x4b\x02", 2)); }},
      {"targets bit 2 is set at the last token of document 0",
       [](v1::Bins& b) { b.set_targets(std::string("\x4f\x00", 2)); }},
      {"targets bit 8 is set at the last token of document 2",
       [](v1::Bins& b) { b.set_targets(std::string("\x4b\x01", 2)); }},
  };
  for (const Case& broken : cases) {
    v1::Bins bins = TwoBins();
    broken.breaks(bins);
    const absl::Status status = DecodeBins(bins, kLimits).status();
    const bool of_data = std::string_view(broken.named).starts_with("token_ids[");
    EXPECT_EQ(status.code(),
              of_data ? absl::StatusCode::kOutOfRange : absl::StatusCode::kInvalidArgument)
        << broken.named;
    EXPECT_NE(status.message().find(broken.named), std::string::npos)
        << status << ", expected " << broken.named;
  }
}

TEST(DecodeTest, TrainChecksItsScalars) {
  v1::Train train;
  *train.mutable_bins() = TwoBins();
  train.set_loss_denominator(4);
  train.set_learning_rate(1e-3);
  train.set_step(5);
  const auto step = DecodeTrain(train, kLimits);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->step, 5);
  EXPECT_EQ(step->loss_denominator, 4);
  EXPECT_EQ(step->learning_rate, 1e-3);
  const auto refused = [&](const std::function<void(v1::Train&)>& change) {
    v1::Train broken = train;
    change(broken);
    return !DecodeTrain(broken, kLimits).ok();
  };
  EXPECT_TRUE(refused([](v1::Train& t) { t.set_step(-1); }));
  EXPECT_TRUE(refused([](v1::Train& t) { t.set_loss_denominator(3); }));  // 4 targets here alone
  EXPECT_TRUE(refused([](v1::Train& t) { t.set_loss_denominator(0); }));
  EXPECT_TRUE(refused([](v1::Train& t) { t.set_learning_rate(-1e-9); }));
  EXPECT_TRUE(
      refused([](v1::Train& t) { t.set_learning_rate(std::numeric_limits<double>::quiet_NaN()); }));
}

// Of a loss of pairs the denominator counts pairs: TwoBins has three documents, one pair at most.
TEST(DecodeTest, ADocumentLossHasItsOwnDenominatorAndScalars) {
  BinLimits limits = kLimits;
  limits.documents_per_unit = 2;
  v1::Train train;
  *train.mutable_bins() = TwoBins();
  train.mutable_bins()->add_references(-1.5);
  train.mutable_bins()->add_values(1);
  train.set_loss_denominator(1);
  train.mutable_documents()->set_nll_ratio(0.25);
  train.mutable_documents()->set_kl(2);
  const auto step = DecodeTrain(train, limits);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->documents.nll_ratio, 0.25);
  EXPECT_EQ(step->documents.kl, 2);
  EXPECT_EQ(step->bins.references, std::vector<double>{-1.5});
  EXPECT_EQ(step->bins.values, std::vector<float>{1});
  limits.documents_per_unit = 1;
  EXPECT_FALSE(DecodeTrain(train, limits).ok());  // three records here alone
  limits.documents_per_unit = 2;
  train.mutable_documents()->set_kl(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(DecodeTrain(train, limits).ok());
}

// TwoBins has 4 targets.
TEST(DecodeTest, APolicyLossHasNumbersOfTargets) {
  v1::Train train;
  *train.mutable_bins() = TwoBins();
  v1::Bins& bins = *train.mutable_bins();
  for (const float value : {0.5f, -1.0f, 0.0f, 2.0f}) {
    bins.add_advantages(value);
    bins.add_old_log_probs(value - 4);
    bins.add_reference_log_probs(value - 8);
  }
  train.set_loss_denominator(4);
  const auto step = DecodeTrain(train, kLimits);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->bins.advantages, (std::vector<float>{0.5f, -1, 0, 2}));
  EXPECT_EQ(step->bins.old_log_probs, (std::vector<float>{-3.5f, -5, -4, -2}));
  EXPECT_EQ(step->bins.reference_log_probs, (std::vector<float>{-7.5f, -9, -8, -6}));
  const auto refused = [&](const std::function<void(v1::Bins&)>& change) {
    v1::Bins broken = bins;
    change(broken);
    return std::string(DecodeBins(broken, kLimits).status().message());
  };
  EXPECT_EQ(refused([](v1::Bins& b) { b.add_advantages(1); }), "bins: 5 advantages, but 4 targets");
  EXPECT_EQ(refused([](v1::Bins& b) { b.mutable_old_log_probs()->RemoveLast(); }),
            "bins: 3 old_log_probs, but 4 targets");
  EXPECT_EQ(refused([](v1::Bins& b) {
              b.set_reference_log_probs(2, std::numeric_limits<float>::infinity());
            }),
            "bins: reference_log_probs[2] is inf");
  EXPECT_EQ(refused([](v1::Bins& b) { b.clear_reference_log_probs(); }), "");
}

}  // namespace
}  // namespace coxswain::agent
