// Equality with Hugging Face tokenizers on the large golden vectors. Invariant tokenizer-1.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "tests/controller/text/tokenizer/tokenizer_vectors.h"

namespace coxswain::data {
namespace {

class TokenizerGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerGoldenTest, GoldenIdsAndTextEqualHuggingFace) {
  const std::string name = GetParam();
  const std::string root = SharedDir() + "/data/tokenizers/";
  const std::string vectors = root + "golden/" + name + ".jsonl.gz";
  if (!std::filesystem::exists(vectors)) GTEST_SKIP() << "needs ../shared (" << vectors << ")";
  const auto tokenizer = Tokenizer::Load(root + name);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  int count = 0;
  for (const nlohmann::json& vector : ReadVectors(vectors)) {
    CheckVector(**tokenizer, vector);
    ++count;
    ASSERT_FALSE(HasFailure()) << "line " << count << " of " << vectors;
  }
  EXPECT_GT(count, 0);
  std::printf("%s: %d texts encoded and decoded\n", name.c_str(), count);
}

INSTANTIATE_TEST_SUITE_P(Shared, TokenizerGoldenTest,
                         ::testing::Values("qwen2", "qwen2.5", "qwen3", "llama-3.1", "gpt2",
                                           "tinyllama-llama2", "phi-3-mini"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '.' || c == '-' ? '_' : c;
                           return name;
                         });

TEST(TokenizerSharedTest, KnowsSpecialTokensOfQwen25) {
  const std::string directory = SharedDir() + "/data/tokenizers/qwen2.5";
  if (!std::filesystem::exists(directory)) GTEST_SKIP() << "needs ../shared (" << directory << ")";
  const auto tokenizer = Tokenizer::Load(directory);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->eos_id(), 151645);
  EXPECT_EQ((*tokenizer)->bos_id(), -1);
  EXPECT_EQ((*tokenizer)->pad_id(), 151643);
  EXPECT_EQ((*tokenizer)->vocab_size(), 151665);
  EXPECT_NE((*tokenizer)->chat_template().find("<|im_start|>"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::data
