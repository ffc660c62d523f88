#include "controller/text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/escaping.h"
#include "controller/text/tokenizer/unicode/utf8.h"
#include "tests/controller/text/tokenizer/tokenizer_fixture.h"
#include "tests/controller/text/tokenizer/tokenizer_vectors.h"

namespace coxswain::data {
namespace {

// Arbitrary bytes: characters of every plane among broken ones.
std::string RandomBytes(std::mt19937_64* random) {
  std::string text;
  const int length = static_cast<int>((*random)() % 60);
  for (int i = 0; i < length; ++i) {
    switch ((*random)() % 4) {
      case 0:
        text.push_back(static_cast<char>((*random)()));
        break;
      case 1:
        AppendUtf8(static_cast<uint32_t>((*random)() % 0xD800), &text);
        break;
      case 2:
        AppendUtf8(static_cast<uint32_t>(0x10000 + (*random)() % 0x100000), &text);
        break;
      default:
        text.push_back(static_cast<char>(' ' + (*random)() % 95));
    }
  }
  return text;
}

// Marks change no id; two ranges that make up the text want all of its tokens, and one at most
// twice: that across their edge.
void CheckMarks(const Tokenizer& tokenizer, const std::string& text, size_t edge) {
  std::vector<int32_t> ids, same;
  std::vector<bool> first, second;
  ASSERT_TRUE(tokenizer.EncodeMarked(text, {{}, {{0, edge}}}, &ids, &first).ok());
  ASSERT_TRUE(tokenizer.EncodeMarked(text, {{}, {{edge, text.size()}}}, &same, &second).ok());
  EXPECT_EQ(ids, Ids(tokenizer, text));
  EXPECT_EQ(same, ids);
  ASSERT_EQ(first.size(), ids.size());
  ASSERT_EQ(second.size(), ids.size());
  int both = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_TRUE(first[i] || second[i]) << text << " " << edge << " " << i;
    both += first[i] && second[i];
    EXPECT_TRUE(i == 0 || second[i] || !second[i - 1]);
  }
  EXPECT_LE(both, 1) << text << " " << edge;
}

TEST(TokenizerTest, MarksTellTheTokensOfARange) {
  const std::string text = "a \u00e9e\u0301 <|im_end|>\n  the quick\u4e16\u754c 12 \U0001F30D end ";
  for (const char* name : {"base.json.gz", "characters.json.gz", "sentencepiece_llama.model",
                           "sentencepiece_unigram.model", "sentencepiece_no_prefix.model"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::Load(std::string(kTokenizerFixtures) + name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (size_t edge = 1; edge < text.size(); ++edge) {
      if ((static_cast<uint8_t>(text[edge]) & 0xC0) != 0x80) CheckMarks(**tokenizer, text, edge);
    }
  }
}

// A token across a seam is text; white space that a marker takes along makes it no target.
TEST(TokenizerTest, SeamsKeepTokensApart) {
  nlohmann::json json = BaseTokenizerJson();
  for (auto& token : json["added_tokens"]) token["rstrip"] = true;
  const auto tokenizer = LoadJson(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string marker = json["added_tokens"][0]["content"];
  const std::string text = "x" + marker + "  y" + marker;
  std::vector<int32_t> ids, plain;
  std::vector<bool> wanted;
  const size_t answer = 1 + marker.size();  // begins with the spaces that the marker takes
  ASSERT_TRUE((*tokenizer)
                  ->EncodeMarked(text, {{answer + 4}, {{answer, text.size()}}}, &ids, &wanted)
                  .ok());
  const auto id = *(*tokenizer)->TokenToId(marker);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 1);
  EXPECT_EQ(ids[1], id);
  EXPECT_FALSE(wanted[1]);
  EXPECT_TRUE(wanted[2]);
  ASSERT_TRUE((*tokenizer)->EncodePlain("y" + marker, &plain).ok());
  EXPECT_TRUE(std::equal(ids.begin() + 2, ids.end(), plain.begin(), plain.end()));
}

// Invariant tokenizer-2.
TEST(TokenizerTest, DecodeOfEncodeIsTheTextWhenNothingNormalizes) {
  nlohmann::json plain = BaseTokenizerJson();
  plain["normalizer"] = nullptr;
  const auto tokenizer = LoadJson(plain);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = RandomBytes(&random);
    EXPECT_EQ((*tokenizer)->Decode(Ids(**tokenizer, text), false), ReplaceInvalidUtf8(text));
    ASSERT_FALSE(HasFailure()) << absl::CEscape(text);
  }
}

// Invariant tokenizer-3.
TEST(TokenizerTest, InvalidBytesCountAsPythonReplacesThem) {
  std::ifstream file(std::string(kTokenizerFixtures) + "invalid_utf8.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  const std::unique_ptr<Tokenizer> tokenizer = BaseTokenizer();
  ASSERT_GT(cases.size(), 100u);
  for (const nlohmann::json& c : cases) {
    const std::string bytes = absl::HexStringToBytes(c["hex"].get<std::string>());
    const auto& replaced = c["text"].get_ref<const std::string&>();
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), replaced) << c["hex"];
    EXPECT_EQ(Ids(*tokenizer, bytes), Ids(*tokenizer, replaced)) << c["hex"];
  }
}

TEST(TokenizerTest, EncodeAppends) {
  const std::unique_ptr<Tokenizer> tokenizer = BaseTokenizer();
  std::vector<int32_t> ids = {7};
  ASSERT_TRUE(tokenizer->Encode("", &ids).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{7}));
  ASSERT_TRUE(tokenizer->Encode("a", &ids).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{7, *tokenizer->TokenToId("a")}));
}

// Invariant tokenizer-5: a word of 200,000 letters takes milliseconds, and the long-word path
// agrees with the short one, which sees the same letters cut at a boundary no merge crosses.
TEST(TokenizerTest, LongWordsAreFastAndMergeAlike) {
  const std::unique_ptr<Tokenizer> tokenizer = BaseTokenizer();
  std::mt19937_64 random(3);
  for (int length = 2; length < 120; ++length) {
    std::string word;
    for (int i = 0; i < length; ++i) word.push_back("aeinorst"[random() % 8]);
    const std::vector<int32_t> ids = Ids(*tokenizer, word);
    EXPECT_EQ(tokenizer->Decode(ids, false), word);
    EXPECT_EQ(Ids(*tokenizer, word), ids);  // from the cache, where short
  }
  std::string word;
  for (int i = 0; i < 200000; ++i) word.push_back("aeinorst"[random() % 8]);
  const std::clock_t start = std::clock();  // CPU time: on a busy machine others' is no part of it
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, word), false), word);
  EXPECT_LT(std::clock() - start, 5 * CLOCKS_PER_SEC);
}

std::vector<std::string> ManyTexts() {
  std::mt19937_64 random(9);
  std::vector<std::string> texts;
  for (int i = 0; i < 2000; ++i) texts.push_back(RandomBytes(&random));
  return texts;
}

// Invariant tokenizer-4.
TEST(TokenizerTest, ParallelEncodeEqualsSerial) {
  const std::unique_ptr<Tokenizer> tokenizer = BaseTokenizer();
  const std::vector<std::string> texts = ManyTexts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<std::vector<int32_t>> serial;
  for (const std::string& text : texts) serial.push_back(Ids(*tokenizer, text));
  for (const int threads : {0, 1, 2, 7}) {
    const auto parallel = tokenizer->EncodeBatch(views, threads);
    ASSERT_TRUE(parallel.ok()) << parallel.status();
    EXPECT_EQ(*parallel, serial) << threads << " threads";
  }
  EXPECT_TRUE(tokenizer->EncodeBatch({}, 2)->empty());
}

TEST(TokenizerTest, ThreadsShareOneTokenizer) {
  const std::unique_ptr<Tokenizer> tokenizer = BaseTokenizer();
  const std::vector<std::string> texts = ManyTexts();
  std::vector<std::vector<int32_t>> first(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) first[i] = Ids(*tokenizer, texts[i]);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(Ids(*tokenizer, texts[i]), first[i]);
    });
  }
}

TEST(TokenizerTest, PlainTextHidesSpecialTokensOnly) {
  const std::unique_ptr<Tokenizer> tokenizer = BaseTokenizer();
  const int32_t end = *tokenizer->TokenToId("<|im_end|>");
  EXPECT_TRUE(tokenizer->IsSpecial(end));
  EXPECT_EQ(Ids(*tokenizer, "<|im_end|>"), (std::vector<int32_t>{end}));
  std::vector<int32_t> plain;
  ASSERT_TRUE(tokenizer->EncodePlain("<|im_end|>", &plain).ok());
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(tokenizer->Decode(plain, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{end}, true), "");
}

TEST(TokenizerTest, BothMergeSyntaxesGiveTheSameIds) {
  nlohmann::json strings = BaseTokenizerJson();
  for (nlohmann::json& merge : strings["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const auto tokenizer = LoadJson(strings);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::unique_ptr<Tokenizer> base = BaseTokenizer();
  for (const std::string& text : ManyTexts()) {
    ASSERT_EQ(Ids(**tokenizer, text), Ids(*base, text));
  }
}

TEST(TokenizerTest, FingerprintChangesWithEitherFile) {
  const nlohmann::json base = BaseTokenizerJson();
  nlohmann::json other = base;
  other["normalizer"] = nullptr;
  const std::string plain = (*LoadJson(base))->fingerprint();
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ((*LoadJson(base))->fingerprint(), plain);
  EXPECT_NE((*LoadJson(other))->fingerprint(), plain);
  EXPECT_NE((*LoadJson(base, R"({"eos_token": "<|im_end|>"})"))->fingerprint(), plain);
}

// A hole is an id without a token: it decodes to nothing, and so does an id outside the vocabulary.
TEST(TokenizerTest, VocabularyMayHaveHoles) {
  nlohmann::json holes = BaseTokenizerJson();
  for (auto& [token, id] : holes["model"]["vocab"].items()) {
    if (id == 4092) id = 5000;
  }
  const auto tokenizer = LoadJson(holes);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 5001);
  EXPECT_EQ((*tokenizer)->IdToToken(4092), "");
  EXPECT_EQ((*tokenizer)->IdToToken(5000), BaseTokenizer()->IdToToken(4092));
  const int32_t a = *(*tokenizer)->TokenToId("a");
  EXPECT_EQ((*tokenizer)->Decode(std::vector<int32_t>{a, 4092, -1, 99999, a}, false), "aa");
  EXPECT_EQ((*tokenizer)->TokenToId("no such token"), std::nullopt);
}

}  // namespace
}  // namespace coxswain::data
