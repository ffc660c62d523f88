// tokenizer_config.json and the chat templates beside it.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/controller/text/tokenizer/tokenizer_fixture.h"

namespace coxswain::data {
namespace {

TEST(TokenizerConfigTest, ReadsTokensAsStringsAndObjects) {
  const auto tokenizer = LoadJson(BaseTokenizerJson(), R"({
    "eos_token": {"__type": "AddedToken", "content": "<|im_end|>"}, "bos_token": "<|im_start|>",
    "pad_token": null, "model_max_length": 1000000000000000019884624838656})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->eos_id(), (*tokenizer)->TokenToId("<|im_end|>"));
  EXPECT_EQ((*tokenizer)->bos_id(), (*tokenizer)->TokenToId("<|im_start|>"));
  EXPECT_EQ((*tokenizer)->pad_id(), -1);
  EXPECT_EQ((*tokenizer)->chat_template(), "");
}

TEST(TokenizerConfigTest, ChatTemplatesHaveNames) {
  const auto one = LoadJson(BaseTokenizerJson(), R"({"chat_template": "D"})");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)->chat_template(), "D");
  EXPECT_EQ((*one)->chat_template("tool_use"), "");
  const auto named = LoadJson(BaseTokenizerJson(), R"({"chat_template": [
      {"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ((*named)->chat_template(), "D");
  EXPECT_EQ((*named)->chat_template("tool_use"), "T");
}

TEST(TokenizerConfigTest, TemplateFilesWinOverTheConfig) {
  const support::ScratchFolder directory;
  directory.Write("tokenizer.json", BaseTokenizerJson().dump());
  directory.Write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  const std::string before = (*Tokenizer::Load(directory.path()))->fingerprint();
  directory.Write("chat_template.jinja", "file");
  const auto file = Tokenizer::Load(directory.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->chat_template(), "file");
  EXPECT_EQ((*file)->chat_template("tool_use"), "");
  EXPECT_NE((*file)->fingerprint(), before);
  std::filesystem::create_directory(directory.path() + "/additional_chat_templates");
  directory.Write("additional_chat_templates/tool_use.jinja", "tools");
  const auto both = Tokenizer::Load(directory.path());
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ((*both)->chat_template(), "file");
  EXPECT_EQ((*both)->chat_template("tool_use"), "tools");
}

}  // namespace
}  // namespace coxswain::data
