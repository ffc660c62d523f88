#include "controller/data/readers/record_parser.h"

#include <string>

#include <gtest/gtest.h>

namespace coxswain::data {
namespace {

using config::DatasetFormat;

std::string ErrorOf(DatasetFormat format, const std::string& json) {
  auto record = RecordParser(format).Parse(json);
  EXPECT_EQ(record.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(record.status().message());
}

TEST(RecordParserTest, ReadsAlpacaWithInputAbsentNullOrEmpty) {
  RecordParser parser(DatasetFormat::kAlpaca);
  for (const char* input : {"", "\"input\": null,", "\"input\": \"\","}) {
    auto record = parser.Parse("{\"instruction\": \"i\\u00e9\"," + std::string(input) +
                               "\"output\": \"o\", \"other\": {}}");
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(std::get<AlpacaRecord>(*record).instruction, "i\u00e9");
    EXPECT_EQ(std::get<AlpacaRecord>(*record).input, "");
    EXPECT_EQ(std::get<AlpacaRecord>(*record).output, "o");
  }
}

TEST(RecordParserTest, ReadsChatMessages) {
  auto record =
      RecordParser(DatasetFormat::kChat).Parse(R"({"messages": [{"role": "system", "content": "s"},
                            {"content": "u", "role": "user"}, {"role": "assistant", "content": "a"}]})");
  ASSERT_TRUE(record.ok()) << record.status();
  const auto& messages = std::get<ChatRecord>(*record).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].role, Role::kUser);
  EXPECT_EQ(messages[2].content, "a");
}

TEST(RecordParserTest, NamesTheFieldThatIsMissingOrIllTyped) {
  const auto alpaca = DatasetFormat::kAlpaca, chat = DatasetFormat::kChat;
  EXPECT_EQ(ErrorOf(alpaca, R"({"instruction": "i"})"), "field \"output\" is missing");
  EXPECT_EQ(ErrorOf(alpaca, R"({"instruction": 1, "output": ""})"),
            "field \"instruction\" is a number, not a string");
  EXPECT_EQ(ErrorOf(alpaca, R"({"instruction": "", "input": [], "output": ""})"),
            "field \"input\" is an array, not a string");
  EXPECT_EQ(ErrorOf(DatasetFormat::kCompletion, R"({"text": null})"),
            "field \"text\" is null, not a string");
  EXPECT_EQ(ErrorOf(chat, R"({"messages": {}})"), "field \"messages\" is an object, not an array");
  EXPECT_EQ(ErrorOf(chat, R"({"messages": ["x"]})"),
            "field \"messages[0]\" is a string, not an object");
  EXPECT_EQ(ErrorOf(chat, R"({"messages": [{"role": "user", "content": [1]}]})"),
            "field \"messages[0].content\" is an array, not a string");
  EXPECT_EQ(ErrorOf(chat, R"({"messages": [{"content": "x"}]})"),
            "field \"messages[0].role\" is missing");
}

TEST(RecordParserTest, RefusesUnknownRolesAndShareGpt) {
  EXPECT_NE(ErrorOf(DatasetFormat::kChat, R"({"messages": [{"role": "human", "content": ""}]})")
                .find("\"human\"; the roles are system, user, assistant"),
            std::string::npos);
  EXPECT_NE(ErrorOf(DatasetFormat::kChat, R"({"conversations": []})").find("convert it"),
            std::string::npos);
}

TEST(RecordParserTest, ValidatesTheWholeText) {
  const auto format = DatasetFormat::kCompletion;
  for (const char* json : {"", "{", "{\"text\": \"a\"", "{\"text\": \"a\"} x",
                           "{\"text\": \"a\", \"b\": tru}", "{\"text\": \"\xff\"}",
                           "{\"text\": \"a\nb\"}", "{'text': 'a'}", "{\"text\": \"\\ud800\"}"}) {
    EXPECT_NE(ErrorOf(format, json).find("bad JSON"), std::string::npos) << json;
  }
  EXPECT_EQ(ErrorOf(format, "[1]"), "the record is an array, not an object");
}

}  // namespace
}  // namespace coxswain::data
