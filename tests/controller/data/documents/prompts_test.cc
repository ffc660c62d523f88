#include "controller/data/documents/prompts.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

// The quickstart's tokenizer, which has a chat template, in a folder of its own.
class PromptsTest : public testing::Test {
 protected:
  PromptsTest() {
    job_.model_path = scratch_.path() + "/model";
    fs::create_directory(job_.model_path);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "config.json"}) {
      fs::copy(std::string("deploy/quickstart/model/") + name, job_.model_path);
    }
    job_.generate.prompts = {"What is 2 + 2?"};
  }

  PreparedPrompts Prepared() const {
    auto prompts = PreparePrompts(job_);
    EXPECT_TRUE(prompts.ok()) << prompts.status();
    return prompts.ok() ? *std::move(prompts) : PreparedPrompts{};
  }
  std::string FirstText() const {
    const PreparedPrompts prompts = Prepared();
    return prompts.tokenizer->Decode(prompts.ids.front(), /*skip_special=*/false);
  }
  void Refused(const std::string& what) const {
    const absl::Status status = PreparePrompts(job_).status();
    EXPECT_NE(status.ToString().find(what), std::string::npos) << status;
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
};

TEST_F(PromptsTest, APromptIsOneUserMessageUpToTheAnswer) {
  EXPECT_EQ(FirstText(), "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(PromptsTest, WithoutATemplateAPromptIsItsText) {
  scratch_.Write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  EXPECT_EQ(FirstText(), "What is 2 + 2?");
  job_.chat_template = "chatml";  // the job says how it is asked
  EXPECT_NE(FirstText(), "What is 2 + 2?");
}

TEST_F(PromptsTest, AJobIsAskedAsItsFirstDatasetAsks) {
  scratch_.Write("data.jsonl", R"({"instruction": "a", "output": "b"})");
  job_.datasets = {config::DefaultDataset()};
  config::DatasetSpec& dataset = job_.datasets.front();
  dataset.path = scratch_.path() + "/data.jsonl";
  dataset.format = config::DatasetFormat::kAuto;
  dataset.prompt_style = config::PromptStyle::kAlpaca;
  EXPECT_EQ(FirstText(),
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nWhat is 2 + 2?\n\n### Response:\n");
  dataset.prompt_style = config::PromptStyle::kChat;
  EXPECT_EQ(FirstText(), "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n");
  dataset.format = config::DatasetFormat::kCompletion;
  EXPECT_EQ(FirstText(), "What is 2 + 2?");
}

TEST_F(PromptsTest, AStyleOfItsOwnDecides) {
  job_.generate.style = config::AskingStyle::kText;
  EXPECT_EQ(FirstText(), "What is 2 + 2?");
  job_.generate.style = config::AskingStyle::kAlpaca;
  EXPECT_NE(FirstText().find("### Instruction:\nWhat is 2 + 2?"), std::string::npos);
}

TEST_F(PromptsTest, MessagesAreOneConversation) {
  job_.generate.prompts.clear();
  job_.generate.messages =
      R"([{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"},)"
      R"( {"role": "user", "content": "C"}])";
  EXPECT_EQ(FirstText(),
            "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n"
            "<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n");
  job_.generate.messages = R"({"role": "user"})";
  Refused("no JSON list");
  job_.generate.messages = R"([{"role": "user"}])";
  Refused("prompt 1");
}

TEST_F(PromptsTest, EndsAreThoseOfEveryFile) {
  scratch_.Write("model/generation_config.json", R"({"eos_token_id": [7, 5]})");
  scratch_.Write("model/config.json", R"({"eos_token_id": 9, "text_config": {"eos_token_id": 3}})");
  const PreparedPrompts prompts = Prepared();
  const int32_t eos = prompts.tokenizer->eos_id();
  std::vector<int32_t> want = {3, 5, 7, 9, eos};
  std::sort(want.begin(), want.end());
  want.erase(std::unique(want.begin(), want.end()), want.end());
  EXPECT_EQ(prompts.ends, want);
}

TEST_F(PromptsTest, NothingIsReadWhereNothingIsAsked) {
  job_.generate.prompts.clear();
  job_.model_path = "/nowhere";
  EXPECT_TRUE(Prepared().ids.empty());
}

}  // namespace
}  // namespace coxswain::data
