// Invariant tokenizer-6. Files that Tokenizer::Load must refuse, each with a sentence that names
// file, finding and remedy.
#include <gtest/gtest.h>

#include "tests/controller/text/tokenizer/tokenizer_fixture.h"

#include <fstream>

namespace coxswain::data {
namespace {

// Loads base + patch (+ config) and expects a refusal that mentions every one of `words`.
void ExpectRefused(const std::string& patch, const std::vector<std::string>& words,
                   const std::string& config = "") {
  nlohmann::json tokenizer = BaseTokenizerJson();
  tokenizer.merge_patch(nlohmann::json::parse(patch));
  const auto loaded = LoadJson(tokenizer, config);
  ASSERT_FALSE(loaded.ok()) << patch << config;
  EXPECT_TRUE(absl::IsInvalidArgument(loaded.status())) << loaded.status();
  const std::string message(loaded.status().message());
  EXPECT_NE(message.find("tokenizer"), std::string::npos) << message;
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' not in: " << message;
  }
}

TEST(TokenizerRefusalTest, OtherModels) {
  ExpectRefused(R"({"model": {"type": "WordLevel"}})", {"tokenizer.json", "'WordLevel'", "BPE"});
  ExpectRefused(R"({"model": {"type": "WordPiece"}})", {"'WordPiece'", "supported: BPE"});
  ExpectRefused(R"({"model": {"dropout": 0.1}})", {"dropout", "0.1"});
  ExpectRefused(R"({"model": {"end_of_word_suffix": "</w>"}})", {"end_of_word_suffix", "'</w>'"});
  ExpectRefused(R"({"model": {"unk_token": "<gone>"}, "pre_tokenizer": null})",
                {"unk_token", "'<gone>'"});
  ExpectRefused(R"({"model": null})", {"no object 'model'"});
}

TEST(TokenizerRefusalTest, OtherPipelines) {
  ExpectRefused(R"({"normalizer": {"type": "BertNormalizer"}})", {"'BertNormalizer'", "NFC"});
  ExpectRefused(R"({"normalizer": {"type": "Replace", "content": "x"}})", {"'Replace'", "pattern"});
  ExpectRefused(R"({"pre_tokenizer": {"type": "BertPreTokenizer"}})",
                {"'BertPreTokenizer'", "Metaspace"});
  ExpectRefused(R"({"pre_tokenizer": {"type": "Metaspace"}})", {"'Metaspace'", "one character"});
  ExpectRefused(R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "ByteLevel"}, {"type": "Metaspace", "replacement": "_"}]}})",
                {"'Metaspace' after ByteLevel", "Digits"});
  ExpectRefused(R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "MergedWithAll"}]}})",
                {"'MergedWithAll'", "Isolated"});
  ExpectRefused(R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"},
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]}})",
                {"'first'", "first step"});
  ExpectRefused(R"({"normalizer": {"type": "Prepend", "prepend": "_"}, "pre_tokenizer":
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}})",
                {"'Prepend'", "'first'"});
  ExpectRefused(R"({"post_processor": {"type": "Other"}})", {"'Other'", "TemplateProcessing"});
  ExpectRefused(R"({"post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}], "special_tokens": {}}})",
                {"'TemplateProcessing'", "'<s>'"});
  ExpectRefused(R"({"decoder": {"type": "WordPiece"}})", {"decoder", "ByteLevel"});
  ExpectRefused(R"({"decoder": null})", {"decoder", "ByteLevel"});
}

// Regexes that Oniguruma and PCRE2 read differently, and one that neither reads.
TEST(TokenizerRefusalTest, RegexesReadDifferently) {
  const auto with_regex = [](const std::string& regex) {
    const nlohmann::json split = {
        {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
    return nlohmann::json{
        {"pre_tokenizer",
         {{"type", "Sequence"},
          {"pretokenizers", {split, {{"type", "ByteLevel"}, {"use_regex", false}}}}}}}
        .dump();
  };
  ExpectRefused(with_regex(R"(\p{N}{1,3}+)"),
                {"interval followed by +", "tokenizer.json", "character 9"});
  ExpectRefused(with_regex(R"([a-z&&[^b]])"), {"&&"});
  ExpectRefused(with_regex(R"([a[bc]])"), {"a class inside a class"});
  ExpectRefused(with_regex(R"([\S])"), {R"(\S inside)"});
  ExpectRefused(with_regex("^a"), {"a bare ^"});
  ExpectRefused(with_regex(R"(\h)"), {R"(the escape \h)"});
  ExpectRefused(with_regex("(a"), {"does not compile"});
}

TEST(TokenizerRefusalTest, DamagedVocabularies) {
  ExpectRefused(R"({"model": {"vocab": {"a": null}}})", {"byte 97"});
  ExpectRefused(R"({"model": {"vocab": {"new": 0}}})", {"id 0", "two tokens"});
  ExpectRefused(R"({"model": {"vocab": {"new": -1}}})", {"'new'", "-1"});
  ExpectRefused(R"({"model": {"vocab": {"new": 99999999999}}})", {"'new'", "99999999999"});
  ExpectRefused(R"({"model": {"vocab": {"new": "x"}}})", {"'new'", "not an integer"});
  ExpectRefused(R"({"model": {"vocab": [1]}})", {"model.vocab"});
  ExpectRefused(R"({"model": {"merges": 5}})", {"model.merges"});
  ExpectRefused(R"({"model": {"merges": ["a b c"]}})", {"entry 0", "[\"a\", \"b\"]"});
  ExpectRefused(R"({"model": {"merges": [["\u0120", "t"], ["zq", "x"]]}})", {"entry 1", "'zq'"});
}

// Hugging Face renumbers such tokens when it loads the file.
TEST(TokenizerRefusalTest, AddedTokensOutOfLine) {
  ExpectRefused(R"({"added_tokens": [{"id": 5000, "content": "<x>", "special": true}]})",
                {"'<x>'", "5000", "4093"});
  ExpectRefused(R"({"added_tokens": [{"content": "<x>"}]})", {"added_tokens", "entry 0"});
}

TEST(TokenizerRefusalTest, ConfigThatContradictsTheTokenizer) {
  ExpectRefused("{}", {"tokenizer_config.json", "eos_token", "'<gone>'"},
                R"({"eos_token": "<gone>"})");
  ExpectRefused("{}", {"tokenizer_config.json", "'<|im_end|>'", "7", "4095"},
                R"({"added_tokens_decoder": {"7": {"content": "<|im_end|>"}}})");
  ExpectRefused("{}", {"tokenizer_config.json", "not valid JSON"}, R"({"eos_token": )");
}

TEST(TokenizerRefusalTest, TruncatedFiles) {
  const support::ScratchFolder directory;
  const std::string text = BaseTokenizerJson().dump();
  for (const size_t size : {size_t{0}, size_t{1}, text.size() / 2, text.size() - 1}) {
    const auto loaded = Tokenizer::Load(directory.Write("tokenizer.json", text.substr(0, size)));
    ASSERT_TRUE(absl::IsInvalidArgument(loaded.status())) << loaded.status();
    EXPECT_NE(std::string(loaded.status().message()).find("not valid JSON"), std::string::npos);
  }
  std::ifstream packed(std::string(kTokenizerFixtures) + "base.json.gz", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(packed)), {});
  bytes.resize(bytes.size() / 2);
  const auto cut = Tokenizer::Load(directory.Write("tokenizer.json", bytes));
  EXPECT_TRUE(absl::IsDataLoss(cut.status())) << cut.status();
}

TEST(TokenizerRefusalTest, MissingFiles) {
  const support::ScratchFolder directory;
  const auto loaded = Tokenizer::Load(directory.path());
  EXPECT_TRUE(absl::IsNotFound(loaded.status())) << loaded.status();
  EXPECT_NE(std::string(loaded.status().message()).find("no tokenizer.json"), std::string::npos);
  EXPECT_TRUE(absl::IsNotFound(Tokenizer::Load(directory.path() + "/gone.json").status()));
}

}  // namespace
}  // namespace coxswain::data
