// Our named formats against renderings by the models' own templates (Hugging Face transformers).
// Where the two differ on purpose, the difference is undone here, and so stated.
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "controller/text/templates/chat_renderer.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/templates/conversation.h"

namespace coxswain::data {
namespace {

std::string Render(const std::string& name, const nlohmann::json& messages) {
  TemplateTokens tokens;
  tokens.find = [](std::string_view) { return std::optional<int32_t>(1); };
  config::JobSpec job = config::DefaultSpec();
  job.chat_template = name;
  auto renderer = MakeChatRenderer(job, tokens);
  if (!renderer.ok()) return renderer.status().ToString();
  Turns turns;
  for (const auto& message : messages) turns.emplace_back(message["role"], message["content"]);
  auto documents = (*renderer)(Conversation(turns));
  if (!documents.ok()) return documents.status().ToString();
  std::string text;
  for (const Segment& segment : documents->front().segments) text += segment.text;
  return text;
}

void Replace(std::string* text, const std::string& from, const std::string& to) {
  const size_t at = text->find(from);
  if (at != std::string::npos) text->replace(at, from.size(), to);
}

// Source: the template of the model's tokenizer, by the Hugging Face library.
nlohmann::json Golden(const std::string& model) {
  return nlohmann::json::parse(std::ifstream("tests/fixtures/chats/" + model + ".json"));
}

TEST(TemplatesGoldenTest, ChatmlIsQwen25WithoutItsDefaultSystemTurn) {
  const auto golden = Golden("qwen2.5");
  for (const auto& chat : golden) {
    std::string expected = chat["text"];
    if (chat["messages"][0]["role"] != "system") {
      Replace(&expected,
              "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
              "assistant.<|im_end|>\n",
              "");
    }
    const std::string prompt = chat["add_generation_prompt"] ? "<|im_start|>assistant\n" : "";
    EXPECT_EQ(Render("chatml", chat["messages"]) + prompt, expected);
  }
}

TEST(TemplatesGoldenTest, ChatmlIsQwen3WithoutTheThinkBlockOfTheLastAnswer) {
  const auto golden = Golden("qwen3");
  for (const auto& chat : golden) {
    std::string expected = chat["text"];
    Replace(&expected, "<think>\n\n</think>\n\n", "");
    Replace(&expected, "<think>\nx\n</think>\n\n", "<think>x</think>\n\n");
    const std::string prompt = chat["add_generation_prompt"] ? "<|im_start|>assistant\n" : "";
    EXPECT_EQ(Render("chatml", chat["messages"]) + prompt, expected);
  }
}

TEST(TemplatesGoldenTest, Llama3IsLlama31WithoutItsDateHeader) {
  const auto golden = Golden("llama-3.1");
  for (const auto& chat : golden) {
    std::string expected = chat["text"];
    const std::string dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    if (chat["messages"][0]["role"] == "system") {
      Replace(&expected, dates, "");
    } else {
      Replace(&expected, "<|start_header_id|>system<|end_header_id|>\n\n" + dates + "<|eot_id|>",
              "");
    }
    const std::string prompt =
        chat["add_generation_prompt"] ? "<|start_header_id|>assistant<|end_header_id|>\n\n" : "";
    EXPECT_EQ(Render("llama3", chat["messages"]) + prompt, expected);
  }
}

}  // namespace
}  // namespace coxswain::data
