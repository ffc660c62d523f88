// Tokens that a job adds: as transformers' add_special_tokens would.
#include <gtest/gtest.h>

#include "tests/controller/text/tokenizer/tokenizer_fixture.h"

namespace coxswain::data {
namespace {

class AppendTokensTest : public testing::Test {
 protected:
  AppendTokensTest() { directory_.Write("tokenizer.json", BaseTokenizerJson().dump()); }

  std::unique_ptr<Tokenizer> Load(const std::vector<std::string>& added) const {
    auto tokenizer = Tokenizer::Load(directory_.path(), added);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return *std::move(tokenizer);
  }

  const support::ScratchFolder directory_;
};

TEST_F(AppendTokensTest, TheyTakeTheNextIdsAndAreSpecial) {
  const auto before = Load({}), after = Load({"<|call|>", "<|result|>"});
  const int32_t first = before->vocab_size();
  ASSERT_EQ(after->vocab_size(), first + 2);
  EXPECT_EQ(after->TokenToId("<|call|>"), first);
  EXPECT_EQ(after->TokenToId("<|result|>"), first + 1);
  EXPECT_TRUE(after->IsSpecial(first));
  std::vector<int32_t> expected = Ids(*before, "a ");
  expected.push_back(first);
  for (const int32_t id : Ids(*before, " b")) expected.push_back(id);
  EXPECT_EQ(Ids(*after, "a <|call|> b"), expected);
  std::vector<int32_t> plain;
  ASSERT_TRUE(after->EncodePlain("<|call|>", &plain).ok());
  EXPECT_EQ(plain, std::vector<int32_t>{first}) << "they count in plain text too";
  EXPECT_EQ(after->Decode(std::vector<int32_t>{first, first + 1}, false), "<|call|><|result|>");
  EXPECT_NE(after->fingerprint(), before->fingerprint());
  EXPECT_NE(after->fingerprint(), Load({"<|result|>", "<|call|>"})->fingerprint());
}

TEST_F(AppendTokensTest, AKnownTokenStaysWhatItIs) {
  const auto before = Load({});
  const std::string known(before->IdToToken(before->vocab_size() - 1));
  const auto after = Load({known, "<|call|>", "<|call|>"});
  EXPECT_EQ(std::vector<std::string>(after->added().begin(), after->added().end()),
            std::vector<std::string>{"<|call|>"});
  EXPECT_EQ(after->TokenToId(known), before->vocab_size() - 1);
  EXPECT_EQ(after->vocab_size(), before->vocab_size() + 1);
  EXPECT_EQ(Load({known})->fingerprint(), before->fingerprint());
}

TEST_F(AppendTokensTest, RefusesWhatCannotBeWrittenBack) {
  const auto expect_refused = [](const std::string& path, const char* token, const char* part) {
    const absl::Status status = Tokenizer::Load(path, {token}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
  };
  expect_refused(directory_.path(), "", "a token is empty");
  expect_refused(std::string(kTokenizerFixtures) + "sentencepiece_llama.model", "<|call|>",
                 "sentencepiece_llama.model cannot be extended");
}

}  // namespace
}  // namespace coxswain::data
