#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include "controller/data/documents/record_renderer.h"
#include "controller/text/templates/chat_renderer.h"
#include "controller/text/tokenizer/unicode/white_space.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/templates/conversation.h"

namespace coxswain::data {
namespace {

// Every token exists; ids do not matter here.
TemplateTokens AllTokens() {
  TemplateTokens tokens;
  tokens.find = [](std::string_view) { return std::optional<int32_t>(7); };
  tokens.eos = {2, "</eos>"};
  tokens.tokenizer = "/models/m";
  return tokens;
}

// Of a conversation, whose targets are marks of its text.
std::string ShowMarked(const Segment& segment) {
  std::string out;
  size_t at = 0;
  for (const ByteRange& range : segment.marks->ranges) {
    out += segment.text.substr(at, range.begin - at) + "⟦" +
           segment.text.substr(range.begin, range.end - range.begin) + "⟧";
    at = range.end;
  }
  return out + segment.text.substr(at);
}

// Text with targets between "⟦" and "⟧", as in the table of formats.
std::string Show(const std::vector<Segment>& segments) {
  std::string out;
  bool open = false;
  for (const Segment& segment : segments) {
    if (segment.marks) return ShowMarked(segment);
    if (open && !segment.target) out += "⟧";
    const bool opens = segment.target && !open;
    if (opens && segment.untrained_prefix == 0) out += "⟦";
    out += segment.text.substr(0, segment.untrained_prefix);
    if (opens && segment.untrained_prefix > 0) out += "⟦";
    out += segment.text.substr(segment.untrained_prefix);
    open = segment.target;
  }
  return open ? out + "⟧" : out;
}

std::string Show(const absl::StatusOr<std::vector<RenderedDocument>>& documents) {
  if (!documents.ok()) return std::string(documents.status().message());
  std::string out;
  for (const RenderedDocument& document : *documents) {
    out += (out.empty() ? "" : " | ") + Show(document.segments);
  }
  return out;
}

std::string RenderChat(const std::string& name, const Turns& turns) {
  config::JobSpec job = config::DefaultSpec();
  job.chat_template = name;
  auto renderer = MakeChatRenderer(job, AllTokens());
  if (!renderer.ok()) return std::string(renderer.status().message());
  return Show((*renderer)(Conversation(turns)));
}

const Turns::value_type kSystem = {"system", "Be terse."};
const Turns::value_type kUser = {"user", " What is 2+2? "};
const Turns::value_type kAnswer = {"assistant", " 4.\n"};
const Turns::value_type kUser2 = {"user", "And 3+3?"};
const Turns::value_type kAnswer2 = {"assistant", "6"};

TEST(TemplatesTest, Chatml) {
  EXPECT_EQ(RenderChat("chatml", {kSystem, kUser, kAnswer, kUser2, kAnswer2}),
            "<|im_start|>system\nBe terse.<|im_end|>\n<|im_start|>user\n What is 2+2? <|im_end|>\n"
            "<|im_start|>assistant\n⟦ 4.\n<|im_end|>⟧\n<|im_start|>user\nAnd 3+3?<|im_end|>\n"
            "<|im_start|>assistant\n⟦6<|im_end|>⟧\n");
}

TEST(TemplatesTest, Llama3) {
  EXPECT_EQ(RenderChat("llama3", {kSystem, kUser, kAnswer, kUser2, kAnswer2}),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe terse.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nWhat is 2+2?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n⟦4.<|eot_id|>⟧"
            "<|start_header_id|>user<|end_header_id|>\n\nAnd 3+3?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n⟦6<|eot_id|>⟧");
}

TEST(TemplatesTest, MistralPutsTheSystemTextBeforeTheLastUserContent) {
  EXPECT_EQ(RenderChat("mistral", {kSystem, kUser, kAnswer, kUser2, kAnswer2}),
            "<s>[INST]  What is 2+2? [/INST] ⟦4.</s>⟧[INST] Be terse.\n\nAnd 3+3?[/INST] ⟦6</s>⟧");
  EXPECT_EQ(RenderChat("mistral", {kUser2, kAnswer2}), "<s>[INST] And 3+3?[/INST] ⟦6</s>⟧");
  EXPECT_NE(RenderChat("mistral", {kUser, kSystem}).find("at the start"), std::string::npos);
  EXPECT_NE(RenderChat("mistral", {kSystem, kAnswer}).find("carry"), std::string::npos);
}

TEST(TemplatesTest, GemmaRefusesSystem) {
  EXPECT_EQ(RenderChat("gemma", {kUser, kAnswer, kUser2, kAnswer2}),
            "<bos><start_of_turn>user\nWhat is 2+2?<end_of_turn>\n"
            "<start_of_turn>model\n⟦4.<end_of_turn>⟧\n<start_of_turn>user\nAnd 3+3?<end_of_turn>\n"
            "<start_of_turn>model\n⟦6<end_of_turn>⟧\n");
  EXPECT_EQ(RenderChat("gemma", {kSystem, kUser, kAnswer}),
            "chat_template gemma refuses it: messages[0] is a system message, which gemma does not "
            "have");
}

std::string RenderRecord(config::DatasetFormat format, config::PromptStyle style,
                         const Record& record) {
  config::DatasetSpec dataset = config::DefaultDataset();
  dataset.format = format;
  dataset.prompt_style = style;
  config::JobSpec job = config::DefaultSpec();
  job.chat_template = "chatml";
  auto renderer = MakeRecordRenderer(job, dataset, AllTokens());
  EXPECT_TRUE(renderer.ok()) << renderer.status();
  return Show((*renderer)(record));
}

TEST(TemplatesTest, AlpacaPrompt) {
  const auto format = config::DatasetFormat::kAlpaca;
  const auto style = config::PromptStyle::kAlpaca;
  EXPECT_EQ(RenderRecord(format, style, AlpacaRecord{"Add.", "2 2", "4"}),
            "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\nAdd.\n\n### Input:\n2 2\n\n### Response:\n⟦4</eos>⟧");
  EXPECT_EQ(RenderRecord(format, style, AlpacaRecord{"Say hi.", "", ""}),
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nSay hi.\n\n### Response:\n⟦</eos>⟧");
}

TEST(TemplatesTest, AlpacaRecordsAsChat) {
  const auto format = config::DatasetFormat::kAlpaca;
  const auto style = config::PromptStyle::kChat;
  EXPECT_EQ(RenderRecord(format, style, AlpacaRecord{"Add.", "2 2", "4"}),
            "<|im_start|>user\nAdd.\n2 2<|im_end|>\n<|im_start|>assistant\n⟦4<|im_end|>⟧\n");
  EXPECT_EQ(RenderRecord(format, style, AlpacaRecord{"Hi.", "", "Yes"}),
            "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n⟦Yes<|im_end|>⟧\n");
  EXPECT_EQ(RenderRecord(format, style, AlpacaRecord{"Hi.", "", ""}),
            "messages[1] is an empty assistant turn");
}

TEST(TemplatesTest, AlpacaAsAChatTemplateTakesOneExchange) {
  EXPECT_EQ(RenderChat("alpaca", {kUser2, kAnswer2}),
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nAnd 3+3?\n\n### Response:\n⟦6</eos>⟧");
  EXPECT_NE(RenderChat("alpaca", {kSystem, kUser, kAnswer}).find("one user and one assistant"),
            std::string::npos);
}

TEST(TemplatesTest, CompletionIsAllTarget) {
  EXPECT_EQ(RenderRecord(config::DatasetFormat::kCompletion, config::PromptStyle::kAlpaca,
                         CompletionRecord{" Once\n"}),
            "⟦ Once\n</eos>⟧");
}

TEST(TemplatesTest, RefusesBadConversations) {
  for (const char* name : {"chatml", "llama3", "mistral", "gemma"}) {
    EXPECT_EQ(RenderChat(name, {}), "the conversation has no messages");
    EXPECT_EQ(RenderChat(name, {kUser, kAnswer, kAnswer2}),
              "messages[1] and messages[2] are both assistant turns");
    EXPECT_EQ(RenderChat(name, {kUser, {"assistant", " \n"}}),
              "messages[1] is an empty assistant turn");
  }
}

TEST(TemplatesTest, PromptsSegmentsAndTheirTargets) {
  const auto style = config::PromptStyle::kAlpaca;
  EXPECT_EQ(RenderRecord(config::DatasetFormat::kPromptCompletion, style, PromptRecord{"p ", "c"}),
            "p ⟦c</eos>⟧");
  EXPECT_EQ(RenderRecord(config::DatasetFormat::kInputOutput, style,
                         SegmentsRecord{{{"a", false}, {"b", true}, {"", false}, {"c", false}}}),
            "a⟦b⟧c");
  EXPECT_EQ(RenderRecord(config::DatasetFormat::kAlpaca, style, AlpacaRecord{"i", "", "o", "Sys."}),
            "Sys.\n\n### Instruction:\ni\n\n### Response:\n⟦o</eos>⟧");
}

TEST(TemplatesTest, RefusesUnknownNames) {
  EXPECT_NE(RenderChat("vicuna", {kUser}).find("\"vicuna\" is not known; it is auto, "),
            std::string::npos);
  EXPECT_NE(
      RenderChat("tokenizer_default", {kUser}).find("came with no chat template; name one of"),
      std::string::npos);
}

TEST(TemplatesTest, RefusesToolsWhereThereIsNoPlaceForThem) {
  for (const char* name : {"chatml", "llama3", "mistral", "gemma"}) {
    EXPECT_NE(
        RenderChat(name, {kUser, {"tool", "x"}, kAnswer}).find("messages[1] is a turn of tool"),
        std::string::npos)
        << RenderChat(name, {kUser, {"tool", "x"}, kAnswer});
  }
}

TEST(TemplatesTest, NamesTheTokenThatTheTokenizerLacks) {
  const std::map<std::string, std::string> last_token = {{"chatml", "<|im_end|>"},
                                                         {"llama3", "<|eot_id|>"},
                                                         {"mistral", "[/INST]"},
                                                         {"gemma", "<end_of_turn>"}};
  for (const auto& [name, token] : last_token) {
    TemplateTokens tokens = AllTokens();
    tokens.find = [&token = token](std::string_view asked) {
      return asked == token ? std::nullopt : std::optional<int32_t>(7);
    };
    config::JobSpec job = config::DefaultSpec();
    job.chat_template = name;
    const auto renderer = MakeChatRenderer(job, tokens);
    ASSERT_EQ(renderer.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(renderer.status().message());
    EXPECT_NE(message.find(token), std::string::npos) << message;
    EXPECT_NE(message.find("/models/m"), std::string::npos) << message;
  }
  TemplateTokens no_eos = AllTokens();
  no_eos.eos = {};
  config::DatasetSpec alpaca = config::DefaultDataset();
  alpaca.format = config::DatasetFormat::kAlpaca;
  EXPECT_FALSE(MakeRecordRenderer(config::DefaultSpec(), alpaca, no_eos).ok());
}

TEST(StripTest, StripsWhatPythonStrips) {
  EXPECT_EQ(Strip(" \t\r\n\x0b\x0c\x1c a b \u00a0\u2003\u3000\u2028\u0085\u1680"), "a b");
  EXPECT_EQ(Strip("\u200b"), "\u200b");
  EXPECT_EQ(Strip(" \n"), "");
  EXPECT_EQ(Strip(""), "");
  EXPECT_EQ(Strip("\u4e2d "), "\u4e2d");
}

}  // namespace
}  // namespace coxswain::data
