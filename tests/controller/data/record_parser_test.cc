#include "controller/data/readers/record_parser.h"

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "controller/data/readers/detect_format.h"
#include "controller/text/jinja/template.h"
#include "controller/text/jinja/values/containers.h"
#include "tests/common/config/default_spec.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;

std::string ErrorOf(DatasetFormat format, const std::string& json) {
  auto record = RecordParser(format, config::DefaultDataset().fields).Parse(json);
  EXPECT_EQ(record.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(record.status().message());
}

ChatRecord Chat(const std::string& json, config::RecordFields fields = {}) {
  if (fields.tools.empty()) fields = config::DefaultDataset().fields;
  auto record = RecordParser(DatasetFormat::kChat, fields).Parse(json);
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? std::get<ChatRecord>(*record) : ChatRecord();
}

// As a template sees it.
std::string Shown(const jinja::Value& value) {
  auto dict = std::make_unique<jinja::Dict>();
  dict->Set(jinja::Value::Text("it"), value);
  const auto show = jinja::Template::Parse("{{ it | tojson }}", "show");
  return (*show)->Render(jinja::MakeDict(std::move(dict)), {}, {})->text;
}
std::string Shown(const Message& message) { return Shown(message.fields); }

TEST(RecordParserTest, ReadsAlpacaWithInputAbsentNullOrEmpty) {
  RecordParser parser(DatasetFormat::kAlpaca, config::DefaultDataset().fields);
  for (const char* input : {"", "\"input\": null,", "\"input\": \"\","}) {
    auto record = parser.Parse("{\"instruction\": \"i\\u00e9\"," + std::string(input) +
                               "\"output\": \"o\", \"other\": {}}");
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(std::get<AlpacaRecord>(*record).instruction, "i\u00e9");
    EXPECT_EQ(std::get<AlpacaRecord>(*record).input, "");
    EXPECT_EQ(std::get<AlpacaRecord>(*record).output, "o");
  }
}

TEST(RecordParserTest, APromptOfMessagesNeedsACompletion) {
  EXPECT_EQ(ErrorOf(DatasetFormat::kPromptCompletion,
                    R"({"prompt": [{"role": "user", "content": "p"}]})"),
            "field \"completion\" is missing");
}

TEST(RecordParserTest, ReadsChatMessages) {
  const ChatRecord chat = Chat(R"({"messages": [{"role": "system", "content": "s"},
                            {"content": "u", "role": "user"}, {"role": "assistant", "content": "a"}]})");
  ASSERT_EQ(chat.messages.size(), 3u);
  EXPECT_EQ(chat.messages[1].role, "user");
  EXPECT_EQ(chat.messages[2].text, "a");
  EXPECT_EQ(Shown(chat.messages[1]), R"({"role": "user", "content": "u"})");
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
            "field \"messages[0].content[0]\" is a number");
  EXPECT_EQ(ErrorOf(chat, R"({"messages": [{"content": "x"}]})"),
            "field \"messages[0].role\" is missing");
}

TEST(RecordParserTest, ReadsShareGptWithToolsAsTemplatesHaveThem) {
  const ChatRecord chat = Chat(R"({"system": "Use tools.", "tools": "[{\"name\": \"f\"}]",
      "conversations": [{"from": "human", "value": "q"},
        {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
        {"from": "observation", "value": "{\"y\": 2}"}, {"from": "gpt", "value": "a"}]})");
  ASSERT_EQ(chat.messages.size(), 5u);
  EXPECT_EQ(chat.messages[0].role, "system");
  EXPECT_EQ(chat.messages[1].role, "user");
  EXPECT_EQ(
      Shown(chat.messages[2]),
      R"({"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]})");
  EXPECT_TRUE(chat.messages[2].has_more);
  EXPECT_EQ(Shown(chat.messages[3]), R"({"role": "tool", "content": "{\"y\": 2}"})");
  EXPECT_EQ(chat.messages[4].role, "assistant");
  EXPECT_EQ(Shown(chat.tools), R"([{"type": "function", "function": {"name": "f"}}])");
}

TEST(RecordParserTest, ReadsPartsAndWhatAMessageSaysOfItsTraining) {
  const ChatRecord chat = Chat(R"({"messages": [
      {"role": "user", "content": [{"type": "text", "value": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "loss_weight": 0.0, "content": [{"type": "reasoning", "value": "hm"},
        {"type": "text", "value": "c"}]},
      {"role": "assistant", "train": true, "content": null, "name": "n", "tool_calls":
        [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]})");
  ASSERT_EQ(chat.messages.size(), 3u);
  EXPECT_EQ(chat.messages[0].text, "ab");
  EXPECT_FALSE(chat.messages[0].train.has_value());
  EXPECT_EQ(Shown(chat.messages[1]),
            R"({"role": "assistant", "reasoning_content": "hm", "content": "c"})");
  EXPECT_EQ(chat.messages[1].train, false);
  EXPECT_EQ(
      Shown(chat.messages[2]),
      R"({"role": "assistant", "content": "", "name": "n", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}, "id": "1"}]})");
  EXPECT_EQ(chat.messages[2].train, true);
}

TEST(RecordParserTest, AMessageIsTrainedOrNot) {
  RecordParser parser(config::DatasetFormat::kChat, config::DefaultDataset().fields);
  const absl::Status refused =
      parser.Parse(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})")
          .status();
  EXPECT_EQ(refused.message(),
            "field \"messages[0].weight\" is 0.5, but a message is trained (1) or not (0)");
}

TEST(RecordParserTest, ReadsFieldsAndRolesUnderOtherNames) {
  config::RecordFields fields = config::DefaultDataset().fields;
  fields.messages = "dialog";
  fields.role = "speaker";
  fields.content = "says";
  fields.roles = {{"customer", "user"}};
  fields.instruction = "question";
  const ChatRecord chat =
      Chat(R"({"dialog": [{"speaker": "customer", "says": "x"}, {"speaker": "bot", "says": "y"}]})",
           fields);
  ASSERT_EQ(chat.messages.size(), 2u);
  EXPECT_EQ(chat.messages[0].role, "user");
  EXPECT_EQ(chat.messages[1].role, "assistant");
  const auto alpaca = RecordParser(DatasetFormat::kAlpaca, fields)
                          .Parse(R"({"question": "q", "output": "o", "system": "s"})");
  ASSERT_TRUE(alpaca.ok()) << alpaca.status();
  EXPECT_EQ(std::get<AlpacaRecord>(*alpaca).instruction, "q");
  EXPECT_EQ(std::get<AlpacaRecord>(*alpaca).system, "s");
}

TEST(RecordParserTest, ReadsPromptsSegmentsAndTokens) {
  const config::RecordFields fields = config::DefaultDataset().fields;
  const auto prompt = RecordParser(DatasetFormat::kPromptCompletion, fields)
                          .Parse(R"({"prompt": "p", "completion": "c"})");
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(std::get<PromptRecord>(*prompt).completion, "c");
  const auto messages = RecordParser(DatasetFormat::kPromptCompletion, fields)
                            .Parse(R"({"prompt": [{"role": "user", "content": "p"}],
                                       "completion": [{"role": "assistant", "content": "c"}]})");
  ASSERT_TRUE(messages.ok()) << messages.status();
  EXPECT_EQ(std::get<ChatRecord>(*messages).messages[0].train, false);
  EXPECT_FALSE(std::get<ChatRecord>(*messages).messages[1].train.has_value());
  const auto segments =
      RecordParser(DatasetFormat::kInputOutput, fields)
          .Parse(R"({"segments": [{"label": false, "text": "p"}, {"label": true, "text": "c"}]})");
  ASSERT_TRUE(segments.ok());
  EXPECT_TRUE(std::get<SegmentsRecord>(*segments).segments[1].target);
  const auto tokens = RecordParser(DatasetFormat::kTokenized, fields)
                          .Parse(R"({"input_ids": [5, 6], "labels": [-100, 6]})");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(std::get<TokenizedRecord>(*tokens).ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(std::get<TokenizedRecord>(*tokens).trained, (std::vector<bool>{false, true}));
  EXPECT_EQ(ErrorOf(DatasetFormat::kTokenized, R"({"input_ids": [5], "labels": [4]})"),
            "field \"labels[0]\" is 4; it is 5 as in input_ids, or -100");
  EXPECT_EQ(ErrorOf(DatasetFormat::kTokenized, R"({"input_ids": [5], "labels": []})"),
            "field \"labels\" has 0 entries, \"input_ids\" 1");
}

TEST(DetectFormatTest, TellsByTheFields) {
  const config::RecordFields fields = config::DefaultDataset().fields;
  const std::pair<const char*, DatasetFormat> cases[] = {
      {R"({"messages": [{"role": "user"}]})", DatasetFormat::kChat},
      {R"({"conversations": [{"from": "human"}], "tools": ""})", DatasetFormat::kSharegpt},
      {R"({"instruction": "", "output": ""})", DatasetFormat::kAlpaca},
      {R"({"prompt": "", "completion": ""})", DatasetFormat::kPromptCompletion},
      {R"({"text": ""})", DatasetFormat::kCompletion},
      {R"({"segments": []})", DatasetFormat::kInputOutput},
      {R"({"input_ids": [], "labels": []})", DatasetFormat::kTokenized}};
  for (const auto& [json, format] : cases) {
    const auto found = DetectFormat(json, fields);
    ASSERT_TRUE(found.ok()) << json << found.status();
    EXPECT_EQ(*found, format) << json;
  }
  const auto none = DetectFormat(R"({"question": "", "answer": ""})", fields);
  EXPECT_NE(none.status().message().find("its fields (question, answer) are those of no format"),
            std::string::npos);
  EXPECT_NE(none.status().message().find("field_instruction: question"), std::string::npos);
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
