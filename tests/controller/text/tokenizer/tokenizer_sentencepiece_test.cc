// tokenizer.model: equality with the SentencePiece library, and what is refused.
#include <gtest/gtest.h>

#include <map>

#include "tests/controller/text/tokenizer/tokenizer_fixture.h"
#include "tests/controller/text/tokenizer/tokenizer_vectors.h"

namespace coxswain::data {
namespace {

std::string ModelPath(const std::string& name) {
  return std::string(kTokenizerFixtures) + "sentencepiece_" + name + ".model";
}

std::string ModelBytes(const std::string& name) {
  const auto bytes = ReadMaybeGzip(ModelPath(name));
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or("");
}

// The library knows no special tokens in text.
TEST(SentencePieceTest, VectorsEqualTheLibrary) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  int count = 0;
  for (const nlohmann::json& vector :
       ReadVectors(std::string(kTokenizerFixtures) + "sentencepiece_vectors.jsonl.gz")) {
    const std::string name = vector["model"];
    if (!tokenizers.contains(name)) {
      auto loaded = Tokenizer::Load(ModelPath(name));
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      tokenizers[name] = *std::move(loaded);
    }
    std::vector<int32_t> ids;
    ASSERT_TRUE(tokenizers[name]->EncodePlain(vector["text"].get<std::string>(), &ids).ok());
    ASSERT_EQ(ids, vector["ids"].get<std::vector<int32_t>>()) << vector.dump();
    ++count;
  }
  EXPECT_GT(count, 2000);
}

TEST(SentencePieceTest, ControlSymbolsAreSpecialTokens) {
  const auto tokenizer = Tokenizer::Load(ModelPath("llama"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const int32_t open = *(*tokenizer)->TokenToId("[INST]");
  EXPECT_TRUE((*tokenizer)->IsSpecial(open));
  EXPECT_FALSE((*tokenizer)->IsSpecial(*(*tokenizer)->TokenToId("Word")));
  const std::vector<int32_t> ids = Ids(**tokenizer, "[INST] the é\n[/INST]");
  EXPECT_EQ(ids.front(), open);
  EXPECT_EQ((*tokenizer)->Decode(ids, /*skip_special=*/true), " the é\n");
}

TEST(SentencePieceTest, ADirectoryWithOnlyAModelIsRead) {
  const support::ScratchFolder directory;
  directory.Write("tokenizer.model", ModelBytes("llama"));
  directory.Write("tokenizer_config.json", R"({"bos_token": "<s>", "legacy": false,
      "add_bos_token": true, "chat_template": "T"})");
  const auto tokenizer = Tokenizer::Load(directory.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->bos_id(), 1);
  EXPECT_EQ((*tokenizer)->chat_template(), "T");
  ASSERT_EQ((*tokenizer)->ids_in_front().size(), 1u);
  // Without `legacy` a text behind a special token gets a space of its own.
  const auto legacy = Tokenizer::Load(ModelPath("llama"));
  EXPECT_EQ(Ids(**tokenizer, "the"), Ids(**legacy, "the"));
  EXPECT_NE(Ids(**tokenizer, "<s>the"), Ids(**legacy, "<s>the"));
  EXPECT_EQ((*tokenizer)->Decode(Ids(**tokenizer, "<s>the"), true), "the");
}

void ExpectModelRefused(const std::string& bytes, const std::vector<std::string>& words) {
  const support::ScratchFolder directory;
  directory.Write("tokenizer.model", bytes);
  const auto loaded = Tokenizer::Load(directory.path());
  ASSERT_TRUE(absl::IsInvalidArgument(loaded.status())) << loaded.status();
  for (const std::string& word : words) {
    EXPECT_NE(std::string(loaded.status().message()).find(word), std::string::npos)
        << "'" << word << "' not in: " << loaded.status();
  }
}

// A message of one field with bytes.
std::string WithLength(int field, const std::string& bytes) {
  return std::string(1, static_cast<char>(field << 3 | 2)) +
         std::string(1, static_cast<char>(bytes.size())) + bytes;
}

std::string PieceMessage(const std::string& text, int type) {
  return WithLength(1, WithLength(1, text) + '\x18' + static_cast<char>(type));
}

TEST(SentencePieceTest, OtherAndDamagedModelsAreRefused) {
  const std::string bpe = WithLength(2, std::string("\x18\x02", 2));
  const std::string bytes = ModelBytes("llama");
  ExpectModelRefused(bytes.substr(0, bytes.size() / 2), {"tokenizer.model", "damaged"});
  ExpectModelRefused("\n", {"damaged"});
  ExpectModelRefused(PieceMessage("a", 1) + WithLength(2, std::string("\x18\x03", 2)),
                     {"words", "BPE, unigram"});
  ExpectModelRefused(PieceMessage("a", 1) + PieceMessage("b", 5) + bpe, {"piece 1", "UNUSED"});
  ExpectModelRefused(PieceMessage("a", 1) + PieceMessage("a", 1) + bpe, {"piece 1", "twice"});
  ExpectModelRefused(PieceMessage("ab", 1) + PieceMessage("a", 1) + bpe, {"piece 0", "character"});
  ExpectModelRefused(PieceMessage("a", 1) + bpe + WithLength(3, WithLength(2, "abcdefgh")),
                     {"precompiled_charsmap"});
}

TEST(SentencePieceTest, OtherFilesAreNamed) {
  const support::ScratchFolder directory;
  directory.Write("tekken.json", "{}");
  const auto loaded = Tokenizer::Load(directory.path());
  ASSERT_TRUE(absl::IsInvalidArgument(loaded.status())) << loaded.status();
  EXPECT_NE(std::string(loaded.status().message()).find("tekken.json"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::data
