#include "controller/data/look/preview.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "controller/data/escape_token.h"
#include "controller/data/look/preview_text.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

class PreviewTest : public testing::Test {
 protected:
  PreviewTest() {
    job_.model_path = scratch_.path();
    WriteByteTokenizer(job_.model_path);
    config::DatasetSpec dataset = config::DefaultDataset();
    dataset.format = config::DatasetFormat::kChat;
    dataset.path = scratch_.Write("d.jsonl",
                                  "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                                  "{\"role\": \"assistant\", \"content\": \"\u00e9\"}]}\n"
                                  "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}\n"
                                  "nonsense\n");
    job_.datasets.push_back(dataset);
  }
  std::string Text(int n, PreviewForm form) const {
    const auto documents = PreviewDocuments(job_, n);
    EXPECT_TRUE(documents.ok()) << documents.status();
    return documents.ok() ? PreviewText(*documents, form) : "";
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
};

TEST_F(PreviewTest, ShowsTheTextItsTargetsAndItsFields) {
  EXPECT_EQ(Text(1, {}), job_.datasets[0].path +
                             ":1: 24 tokens, 3 targets, marked by the template\n"
                             "<|im_start|>user\\n\nq<|im_end|>\\n\n<|im_start|>assistant\\n\n"
                             "⟦é<|im_end|>⟧\\n\n"
                             "  -                    <|im_start|>user\\n\n"
                             "  messages[0].content  q\n"
                             "  -                    <|im_end|>\\n<|im_start|>assistant\\n\n"
                             "  messages[1].content  é\n"
                             "  -                    <|im_end|>\\n\n\n");
}

TEST_F(PreviewTest, PrintsTokensWithLabels) {
  const std::string text = Text(1, {.ids = true});
  const std::string tokens =
      "<|im_start|>(-100, 258) u(-100, 117) s(-100, 115) e(-100, 101) r(-100, 114) "
      "\\n(-100, 10)\n"
      "q(-100, 113) <|im_end|>(-100, 259) \\n(-100, 10)\n"
      "<|im_start|>(-100, 258) a(-100, 97) s(-100, 115) s(-100, 115) i(-100, 105) "
      "s(-100, 115) t(-100, 116) a(-100, 97) n(-100, 110) t(-100, 116) \\n(-100, 10)\n"
      "\\xC3(195, 195) \\xA9(169, 169) <|im_end|>(259, 259) \\n(-100, 10)\n";
  EXPECT_NE(text.find(tokens), std::string::npos) << text;
}

TEST_F(PreviewTest, ColoursTargets) {
  const std::string text = Text(1, {.ids = true, .color = true});
  EXPECT_NE(text.find("\x1b[32m\\xC3(195, 195)\x1b[0m"), std::string::npos);
  EXPECT_NE(text.find("\x1b[90mq(-100, 113)\x1b[0m"), std::string::npos);
  EXPECT_NE(Text(1, {.color = true}).find("\x1b[32m⟦é<|im_end|>⟧\x1b[0m"), std::string::npos);
}

TEST_F(PreviewTest, ShowsTheRecordThatIsNamed) {
  for (const std::string& place :
       {std::string("2"), job_.datasets[0].path + ":2", std::string("d.jsonl:2")}) {
    const auto documents = PreviewDocuments(job_, 30, place);
    ASSERT_TRUE(documents.ok()) << documents.status();
    ASSERT_EQ(documents->size(), 1u);
    EXPECT_EQ((*documents)[0].line, 2);
  }
  for (const char* place : {"9", "e.jsonl:2", "jsonl:2"}) {
    EXPECT_EQ(PreviewDocuments(job_, 30, place).status().code(), absl::StatusCode::kNotFound);
  }
}

TEST_F(PreviewTest, SaysWhyADocumentIsNotUsed) {
  auto documents = PreviewDocuments(job_, 2);
  ASSERT_TRUE(documents.ok());
  EXPECT_EQ((*documents)[1].note, "dropped: no trainable token");
  EXPECT_FALSE((*documents)[1].tokens.empty());
  EXPECT_EQ(PreviewDocuments(job_, 3).status().code(), absl::StatusCode::kInvalidArgument);
  job_.on_bad_record = config::OnBadRecord::kSkip;
  documents = PreviewDocuments(job_, 30);
  ASSERT_TRUE(documents.ok());
  ASSERT_EQ(documents->size(), 3u);
  EXPECT_TRUE((*documents)[2].note.starts_with("skipped: bad JSON"));
}

TEST_F(PreviewTest, ShowsThePiecesOfASplitDocument) {
  job_.excess_length = config::ExcessLength::kSplit;
  job_.sequence_len = 21;
  const auto documents = PreviewDocuments(job_, 1);
  ASSERT_TRUE(documents.ok());
  ASSERT_EQ(documents->size(), 2u);
  EXPECT_EQ((*documents)[1].note, "piece 2 of 2, of a document above sequence_len");
  EXPECT_EQ((*documents)[1].line, 1);
  EXPECT_EQ((*documents)[1].tokens.size(), 3u);
}

TEST_F(PreviewTest, JsonCarriesIdsAndLabels) {
  const auto documents = PreviewDocuments(job_, 1);
  ASSERT_TRUE(documents.ok());
  const auto document = nlohmann::json::parse(PreviewJson(*documents))["documents"][0];
  EXPECT_EQ(document["line"], 1);
  EXPECT_EQ(document["targets"], 3);
  EXPECT_EQ(document["input_ids"].size(), 24u);
  EXPECT_EQ(document["labels"][19], -100);
  EXPECT_EQ(document["labels"][20], 195);
  EXPECT_EQ(document["text"][22], "<|im_end|>");
  EXPECT_EQ(document["parts"][1]["field"], "messages[0].content");
}

TEST(EscapeTokenTest, EscapesControlCharactersAndBrokenUtf8) {
  EXPECT_EQ(EscapeToken("a b\u4e2d"), "a b\u4e2d");
  EXPECT_EQ(EscapeToken("\n\r\t\\"), "\\n\\r\\t\\\\");
  EXPECT_EQ(EscapeToken(std::string_view("\0\x1b", 2)), "\\x00\\x1B");
  EXPECT_EQ(EscapeToken("\xe4\xb8"), "\\xE4\\xB8");
}

}  // namespace
}  // namespace coxswain::data
