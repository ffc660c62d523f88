// Commands with document ids: the same bits as tokens in the command, and when they are refused.
#include "worker/agent/mapped_tokens.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "common/data/token_store_writer.h"
#include "tests/support/scratch_folder.h"
#include "worker/agent/wire/decode.h"

namespace coxswain::agent {
namespace {

class MappedTokensTest : public testing::Test {
 protected:
  void SetUp() override {
    Write(Train(), 40, 7);
    offered_.set_nonce_path(folder_.Write("nonce", "n-1"));
    offered_.set_nonce("n-1");
    const auto store = *data::TokenStore::Open(Train());
    offered_.mutable_train()->set_path(Train());
    offered_.mutable_train()->set_bytes(store->file_bytes());
    offered_.mutable_train()->set_fingerprint(store->fingerprint());
  }

  std::string Train() const { return folder_.path() + "/train.tokens"; }
  // Documents of 1 to 37 tokens, so that target bits start at every place within a byte.
  static void Write(const std::string& path, int documents, unsigned seed) {
    std::mt19937 random(seed);
    auto writer = *data::TokenStoreWriter::Create(path);
    for (int document = 0; document < documents; ++document) {
      std::vector<int32_t> ids(1 + random() % 37);
      std::vector<uint8_t> bits((ids.size() + 7) / 8);
      for (size_t t = 0; t < ids.size(); ++t) {
        ids[t] = static_cast<int32_t>(random() % 100);
        if (t + 1 < ids.size() && random() % 3 != 0) bits[t / 8] |= 1u << (t % 8);
      }
      ASSERT_TRUE(writer->Add(ids, bits, 1).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }

  const support::ScratchFolder folder_;
  v1::TokenStores offered_;
};

constexpr BinLimits kMappedLimits{/*vocab_size=*/100, /*sequence_len=*/128,
                                  /*max_documents_per_bin=*/4};

// Two bins of three documents and one of one, by ids.
v1::Bins ByIds() {
  v1::Bins bins;
  for (const int64_t id : {11, 12, 13}) bins.add_bin_ids(id);
  for (const int32_t count : {3, 1, 3}) bins.add_documents_per_bin(count);
  for (const int64_t document : {3, 1, 39, 15, 9, 0, 6}) bins.add_document_ids(document);
  return bins;
}

// The same with its tokens, laid bit by bit.
v1::Bins WithTokens(const data::TokenStore& store) {
  v1::Bins bins = ByIds();
  size_t at = 0;
  for (const int64_t document : bins.document_ids()) {
    const auto tokens = store.tokens(document);
    bins.add_document_lengths(static_cast<int32_t>(tokens.size()));
    bins.mutable_token_ids()->append(reinterpret_cast<const char*>(tokens.data()),
                                     tokens.size_bytes());
    bins.mutable_targets()->resize((at + tokens.size() + 7) / 8);
    for (size_t t = 0; t < tokens.size(); ++t, ++at) {
      const bool target = store.target_bits(document)[t / 8] >> (t % 8) & 1;
      if (target) bins.mutable_targets()->at(at / 8) |= static_cast<char>(1 << (at % 8));
    }
  }
  bins.clear_document_ids();
  return bins;
}

// Invariant agent-9.
TEST_F(MappedTokensTest, IdsGiveTheBitsThatTokensInTheCommandGive) {
  const auto mapped = MapTokens(offered_);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_NE(*mapped, nullptr);
  const auto by_ids = DecodeBins(ByIds(), kMappedLimits, (*mapped)->train.get());
  const auto by_tokens = DecodeBins(WithTokens(*(*mapped)->train), kMappedLimits);
  ASSERT_TRUE(by_ids.ok()) << by_ids.status();
  ASSERT_TRUE(by_tokens.ok()) << by_tokens.status();
  EXPECT_EQ(by_ids->bin_ids, by_tokens->bin_ids);
  EXPECT_EQ(by_ids->documents_per_bin, by_tokens->documents_per_bin);
  EXPECT_EQ(by_ids->document_lengths, by_tokens->document_lengths);
  EXPECT_EQ(by_ids->token_ids, by_tokens->token_ids);
  EXPECT_EQ(by_ids->targets, by_tokens->targets);
}

TEST_F(MappedTokensTest, WithoutTheSharedPathCommandsCarryTokens) {
  offered_.set_nonce("another controller's");
  EXPECT_EQ(*MapTokens(offered_), nullptr);
  offered_.set_nonce_path(folder_.path() + "/none");
  EXPECT_EQ(*MapTokens(offered_), nullptr);
  EXPECT_EQ(*MapTokens(v1::TokenStores()), nullptr);
}

TEST_F(MappedTokensTest, AShorterStoreAnotherOneAndNoneAreRefusedByName) {
  std::filesystem::resize_file(Train(), offered_.train().bytes() - 4);
  auto mapped = MapTokens(offered_);
  EXPECT_EQ(mapped.status().code(), absl::StatusCode::kDataLoss) << mapped.status();
  Write(Train(), 40, 8);
  mapped = MapTokens(offered_);
  EXPECT_EQ(mapped.status().code(), absl::StatusCode::kDataLoss) << mapped.status();
  EXPECT_NE(mapped.status().message().find(Train()), absl::string_view::npos);
  EXPECT_NE(mapped.status().message().find("the controller mapped one of"),
            absl::string_view::npos);
  std::filesystem::remove(Train());
  EXPECT_EQ(MapTokens(offered_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(MappedTokensTest, RefusesDocumentsThatAreNotThere) {
  v1::Bins bins = ByIds();
  EXPECT_NE(DecodeBins(bins, kMappedLimits).status().message().find("maps no token store"),
            absl::string_view::npos);
  const auto mapped = MapTokens(offered_);
  for (const int64_t wrong : {int64_t{-1}, int64_t{40}}) {
    bins.set_document_ids(2, wrong);
    const auto batch = DecodeBins(bins, kMappedLimits, (*mapped)->train.get());
    EXPECT_NE(batch.status().message().find(std::to_string(wrong)), absl::string_view::npos);
  }
  EXPECT_FALSE(DecodeBins(ByIds(), {100, 8, 4}, (*mapped)->train.get()).ok());
}

}  // namespace
}  // namespace coxswain::agent
