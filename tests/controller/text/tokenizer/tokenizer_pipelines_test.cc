// Invariant tokenizer-1, on every shape of pipeline: small tokenizers, each a JSON merge patch of
// one of two vocabularies, with vectors from Hugging Face tokenizers (tests/fixtures/tokenizer).
#include <gtest/gtest.h>

#include <map>

#include "tests/controller/text/tokenizer/tokenizer_fixture.h"
#include "tests/controller/text/tokenizer/tokenizer_vectors.h"

namespace coxswain::data {
namespace {

using Tokenizers = std::map<std::string, std::unique_ptr<Tokenizer>>;

nlohmann::json ReadFixture(const std::string& name) {
  const auto text = ReadMaybeGzip(std::string(kTokenizerFixtures) + name);
  EXPECT_TRUE(text.ok()) << text.status();
  return nlohmann::json::parse(text.value_or("{}"));
}

void LoadVariants(const nlohmann::json& base, const nlohmann::json& variants,
                  Tokenizers* tokenizers) {
  for (const auto& [name, patch] : variants.items()) {
    nlohmann::json patched = base;
    patched.merge_patch(patch);
    auto tokenizer = LoadJson(patched);
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status();
    (*tokenizers)[name] = *std::move(tokenizer);
  }
}

void CheckVectors(const Tokenizers& tokenizers, const std::string& name, int least) {
  int count = 0;
  for (const nlohmann::json& vector : ReadVectors(kTokenizerFixtures + name)) {
    CheckVector(*tokenizers.at(vector["variant"]), vector);
    ASSERT_FALSE(::testing::Test::HasFailure()) << vector["variant"] << ", vector " << count;
    ++count;
  }
  EXPECT_GT(count, least);
  std::printf("%zu variants: %d texts encoded and decoded\n", tokenizers.size(), count);
}

TEST(TokenizerPipelinesTest, ByteLevelVectorsEqualHuggingFace) {
  Tokenizers tokenizers;
  LoadVariants(BaseTokenizerJson(), ReadFixture("variants.json"), &tokenizers);
  CheckVectors(tokenizers, "vectors.jsonl.gz", 1500);
}

TEST(TokenizerPipelinesTest, CharacterVectorsEqualHuggingFace) {
  const nlohmann::json variants = ReadFixture("character_variants.json.gz");
  Tokenizers tokenizers;
  LoadVariants(ReadFixture("characters.json.gz"), variants["characters"], &tokenizers);
  LoadVariants(BaseTokenizerJson(), variants["base"], &tokenizers);
  CheckVectors(tokenizers, "character_vectors.jsonl.gz", 3500);
}

std::vector<int32_t> Copy(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

TEST(TokenizerPipelinesTest, PostProcessorGivesTheIdsAroundAText) {
  nlohmann::json json = ReadFixture("characters.json.gz");
  EXPECT_EQ(Copy((*LoadJson(json))->ids_in_front()), (std::vector<int32_t>{1}));
  EXPECT_TRUE((*LoadJson(json))->ids_behind().empty());
  const auto ends = LoadJson(json, R"({"eos_token": "</s>", "bos_token": "<s>",
                                       "add_bos_token": false, "add_eos_token": true})");
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_TRUE((*ends)->ids_in_front().empty());
  EXPECT_EQ(Copy((*ends)->ids_behind()), (std::vector<int32_t>{2}));
  const nlohmann::json pair = {
      {"type", "RobertaProcessing"}, {"cls", {"<s>", 1}}, {"sep", {"</s>", 2}}};
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {pair, {{"type", "ByteLevel"}}}}};
  EXPECT_EQ(Copy((*LoadJson(json))->ids_in_front()), (std::vector<int32_t>{1}));
  EXPECT_EQ(Copy((*LoadJson(json))->ids_behind()), (std::vector<int32_t>{2}));
}

// A text without words to cut: as long as a document, and still O(n log n).
TEST(TokenizerPipelinesTest, LongTextsWithoutCutsAreMergedAsAWhole) {
  nlohmann::json json = ReadFixture("characters.json.gz");
  json["model"]["vocab"]["<0x0A><0x0A>"] = 2000;  // a merge of byte tokens: nothing may be cut
  json["model"]["merges"].push_back({"<0x0A>", "<0x0A>"});
  const auto whole = LoadJson(json);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto cut = LoadJson(ReadFixture("characters.json.gz"));
  std::string text;
  for (int i = 0; i < 20000; ++i) text += i % 7 == 0 ? "  the controller, " : "写 x12é ";
  EXPECT_EQ(Ids(**whole, text), Ids(**cut, text));
}

}  // namespace
}  // namespace coxswain::data
