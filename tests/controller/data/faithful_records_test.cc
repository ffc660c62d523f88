// Records are trained as they stand: what their fields say of targets, documents and turns, which
// special tokens they hold, and that nothing of them is lost without a word.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "controller/data/documents/prompts.h"
#include "controller/data/look/preview.h"
#include "controller/data/prepare/prepare.h"
#include "controller/data/readers/columnar_reader.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;

class FaithfulRecordsTest : public testing::Test {
 protected:
  FaithfulRecordsTest() {
    job_.model_path = scratch_.path();
    job_.datasets = {config::DefaultDataset()};
    WriteByteTokenizer(scratch_.path());
    options_.cache_dir = scratch_.path() + "/cache";
    options_.threads = 1;
  }

  void Use(const std::string& json) {
    job_.datasets[0].path = scratch_.Write("train.jsonl", json + "\n");
  }

  // Of a file of these records: every document as text, targets between brackets; or the error.
  std::vector<std::string> Show(const std::string& json) {
    Use(json);
    const auto documents = PreviewDocuments(job_, 16);
    if (!documents.ok()) return {std::string(documents.status().message())};
    warnings_ = TargetWarnings(*documents);
    std::vector<std::string> shown;
    for (const PreviewDocument& document : *documents) {
      std::string text;
      bool inside = false;
      for (const PreviewToken& token : document.tokens) {
        if (token.target != inside) text += token.target ? "⟦" : "⟧";
        inside = token.target;
        text += token.text;
      }
      shown.push_back(text + (inside ? "⟧" : ""));
    }
    return shown;
  }
  std::string ShowOne(const std::string& json) {
    const std::vector<std::string> shown = Show(json);
    EXPECT_EQ(shown.size(), 1u);
    return shown.empty() ? "" : shown[0];
  }
  bool Warned(const std::string& part) const {
    return std::any_of(warnings_.begin(), warnings_.end(), [&](const std::string& warning) {
      return warning.find(part) != std::string::npos;
    });
  }
  static bool Says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  absl::StatusOr<PreparedData> Prepare(const std::string& json) {
    Use(json);
    auto data = PrepareData(job_, options_);
    if (data.ok()) warnings_ = data->warnings;
    return data;
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
  PrepareOptions options_;
  std::vector<std::string> warnings_;
};

using Shown = std::vector<std::string>;

TEST_F(FaithfulRecordsTest, WhatAttentionMasksLeaveOutIsNoTokenAndNoTarget) {
  EXPECT_EQ(Show(R"({"input_ids": [72, 105, 33, 65, 65], "attention_mask": [1, 1, 1, 0, 0]}
{"input_ids": [65, 65, 72, 105, 33], "attention_mask": [false, false, true, true, true]})"),
            (Shown{"H⟦i!⟧", "H⟦i!⟧"}));
  EXPECT_EQ(
      ShowOne(
          R"({"input_ids": [65, 72, 105], "attention_mask": [0, 1, 1], "labels": [0, 72, 105]})"),
      "H⟦i⟧");
}

TEST_F(FaithfulRecordsTest, MasksOfTokensSayWhichAreTargets) {
  for (const char* mask : {"completion_mask", "assistant_masks", "loss_mask"}) {
    EXPECT_EQ(
        ShowOne(R"({"input_ids": [81, 58, 65, 66], ")" + std::string(mask) + R"(": [0, 0, 1, 1]})"),
        "Q:⟦AB⟧");
  }
  EXPECT_EQ(
      ShowOne(
          R"({"input_ids": [81, 65, 66], "completion_mask": [0, 1, 1], "loss_mask": [0, 0, 1]})"),
      "QA⟦B⟧");
}

TEST_F(FaithfulRecordsTest, DocumentsOfOneRecordAreCut) {
  const Shown two = {"H⟦i⟧", "B⟦ye⟧"};
  EXPECT_EQ(Show(R"({"input_ids": [72, 105, 66, 121, 101], "position_ids": [0, 1, 0, 1, 2]})"),
            two);
  EXPECT_EQ(Show(R"({"input_ids": [72, 105, 66, 121, 101], "position_ids": [1, 2, 1, 2, 3]})"),
            two);
  EXPECT_EQ(Show(R"({"input_ids": [72, 105, 66, 121, 101], "seq_lengths": [2, 3]})"), two);
  EXPECT_EQ(Show(R"({"input_ids": [72, 105, 66, 121, 101], "attention_mask": [1, 1, 2, 2, 2]})"),
            two);
  EXPECT_TRUE(Says(ShowOne(R"({"input_ids": [72, 105], "seq_lengths": [1]})"),
                   "\"seq_lengths\" adds up to 1, \"input_ids\" has 2"));
  EXPECT_TRUE(Says(ShowOne(R"({"input_ids": [72, 105], "position_ids": [0, 7]})"),
                   "\"position_ids[1]\" is 7; it is 1"));
}

TEST_F(FaithfulRecordsTest, HistoryIsTheTurnsBeforeTheQuestion) {
  const char* record = R"({"instruction": "R", "output": "no", "history": [["Q", "yes"]]})";
  job_.datasets[0].prompt_style = config::PromptStyle::kChat;
  EXPECT_EQ(ShowOne(record),
            "<|im_start|>user\\nQ<|im_end|>\\n<|im_start|>assistant\\n⟦yes<|im_end|>⟧\\n"
            "<|im_start|>user\\nR<|im_end|>\\n<|im_start|>assistant\\n⟦no<|im_end|>⟧\\n");
  job_.train_on = config::TrainOn::kSplit;
  EXPECT_EQ(Show(record).size(), 1u) << "the answer of the history is no document of its own";
  job_.datasets[0].prompt_style = config::PromptStyle::kAlpaca;
  EXPECT_TRUE(Says(ShowOne(record),
                   "### Instruction:\\nQ\\n\\n### Response:\\nyes<|endoftext|>\\n\\n### "
                   "Instruction:\\nR\\n\\n### Response:\\n⟦no<|endoftext|>⟧"));
  EXPECT_TRUE(Says(ShowOne(R"({"instruction": "R", "output": "no", "history": "x"})"),
                   "field \"history\" is a string, not a list of pairs"));
  job_.datasets[0].fields.history.clear();
  ShowOne(record);
  EXPECT_TRUE(Warned("fields that are not read: \"history\" (1 record)"));
}

TEST_F(FaithfulRecordsTest, MarksOfMessagesGoByManyNames) {
  for (const char* mark : {"\"loss\": false", "\"loss_mask\": 0", "\"train\": 0", "\"weight\": 0.0",
                           "\"training\": false"}) {
    const std::string shown =
        ShowOne(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", )" +
                std::string(mark) +
                R"(, "content": "Teal"}, {"role": "user", "content": "R"}, )"
                R"({"role": "assistant", "content": "Ochre", "loss": null}]})");
    EXPECT_TRUE(!Says(shown, "⟦Teal") && Says(shown, "⟦Ochre")) << shown;
  }
  EXPECT_TRUE(Says(
      ShowOne(
          R"({"messages": [{"role": "assistant", "content": "a", "loss": 1, "train": false}]})"),
      "another mark of the message says the opposite"));
}

TEST_F(FaithfulRecordsTest, RolesAreKnownInAnyCaseAndOthersAreNamed) {
  EXPECT_TRUE(Says(
      ShowOne(
          R"({"conversations": [{"from": "Human", "value": "Q"}, {"from": "ASSISTANT", "value": "a"}]})"),
      "<|im_start|>assistant\\n⟦a<|im_end|>⟧"));
  ByteTokenizerSpec lenient;
  lenient.chat_template =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
  WriteByteTokenizer(scratch_.path(), lenient);
  ShowOne(
      R"({"messages": [{"role": "narrator", "content": "Q"}, {"role": "assistant", "content": "a"}]})");
  EXPECT_TRUE(Warned("roles that are not known: \"narrator\" (1 record)"));
}

TEST_F(FaithfulRecordsTest, EveryUnreadFieldIsNamedOnce) {
  const auto data = Prepare(R"({"text": "a", "id": 1, "source": "x"}
{"text": "b", "id": 2, "source": "", "meta": null})");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(Warned("fields that are not read: \"id\" (2 records), \"source\" (1 record)"));
  EXPECT_FALSE(Warned("meta"));
  const std::vector<std::string> first = warnings_;
  ASSERT_TRUE(PrepareData(job_, options_).ok());
  EXPECT_EQ(PrepareData(job_, options_)->warnings, first) << "the cache tells it again";
  EXPECT_TRUE(Says(FindingLines(data->findings[0], {job_.datasets[0].path}).at(0),
                   "field that is not read \"id\": 2 records: " + job_.datasets[0].path + ":1, 2"));
}

TEST_F(FaithfulRecordsTest, KeysThatTheTemplateDoesNotReadAreNamed) {
  ShowOne(
      R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a", "thinking": "hm"}]})");
  EXPECT_TRUE(
      Warned("keys of messages that the chat template does not read: \"thinking\" (1 record)"));
}

TEST_F(FaithfulRecordsTest, SpecialTokensOfRenderedTextAreTokens) {
  EXPECT_EQ(ShowOne(R"({"text": "a<|im_end|>"})"), "a⟦<|im_end|><|endoftext|>⟧");
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(ShowOne(R"({"prompt": "Q", "completion": "a<|endoftext|>"})"), "Q⟦a<|endoftext|>⟧");
  const auto documents = PreviewDocuments(job_, 1);
  ASSERT_TRUE(documents.ok());
  EXPECT_EQ(documents->front().tokens.size(), 3u) << "one end, as one token";
  job_.datasets[0].special_tokens = config::SpecialTokens::kPlain;
  ShowOne(R"({"text": "a<|im_end|>"})");
  EXPECT_EQ(PreviewDocuments(job_, 1)->front().tokens.size(), 12u);
  EXPECT_TRUE(Warned("special tokens in the text of records are taken as text: \"<|im_end|>\""));
}

TEST_F(FaithfulRecordsTest, SpecialTokensOfContentsAreTextUnlessTheSourceSaysOtherwise) {
  const char* record =
      R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "[INST]a"}]})";
  const auto count = [&] {
    int64_t tokens = 0;
    for (const PreviewToken& token : PreviewDocuments(job_, 1)->front().tokens) {
      tokens += token.text == "[INST]";
    }
    return tokens;
  };
  ShowOne(record);
  EXPECT_EQ(count(), 0);
  EXPECT_TRUE(Warned("\"[INST]\" (1 record); special_tokens: content makes them tokens"));
  job_.datasets[0].special_tokens = config::SpecialTokens::kContent;
  ShowOne(record);
  EXPECT_EQ(count(), 1);
}

TEST_F(FaithfulRecordsTest, TokensThatTheJobAddsCountEverywhereButAsTurnMarkers) {
  job_.added_tokens = {"<glad>", "<|im_end|>"};
  const auto added = [&](const std::string& token) {
    int64_t tokens = 0;
    for (const PreviewToken& seen : PreviewDocuments(job_, 1)->front().tokens) {
      tokens += seen.text == token;
    }
    return tokens;
  };
  ShowOne(
      R"({"messages": [{"role": "user", "content": "Q<|im_end|>"}, {"role": "assistant", "content": "<glad>a"}]})");
  EXPECT_EQ(added("<glad>"), 1);
  EXPECT_EQ(added("<|im_end|>"), 2) << "content cannot forge a turn";
  ShowOne(R"({"instruction": "Q", "output": "<glad>a"})");
  EXPECT_EQ(added("<glad>"), 1);
}

TEST_F(FaithfulRecordsTest, ToolsOfNothingAreNone) {
  const std::string turns =
      R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a"}])";
  const Shown expected = Show(turns + "}");
  for (const char* tools : {"null", "\"null\"", "[]", "\"[]\"", "\"\"", "{}", "\"{}\"", "\" \""}) {
    EXPECT_EQ(Show(turns + ", \"tools\": " + tools + "}"), expected) << tools;
  }
}

TEST_F(FaithfulRecordsTest, PreferenceRecordsAreRefusedByName) {
  job_.on_bad_record = config::OnBadRecord::kSkip;
  const auto refused = [&](const std::string& json) {
    const absl::Status status = Prepare(json).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
    return std::string(status.message());
  };
  EXPECT_TRUE(Says(refused(R"({"prompt": "Q", "chosen": "a", "rejected": "b"})"), "(DPO)"));
  EXPECT_TRUE(Says(refused(R"({"prompt": "Q", "completion": "a", "label": false})"),
                   "\"label: false\" makes it a preference record (KTO)"));
  EXPECT_TRUE(
      Says(refused(R"({"messages": [{"role": "assistant", "content": "a"}], "kto_tag": true})"),
           "(KTO)"));
  EXPECT_TRUE(Says(
      refused(
          R"({"conversations": [{"from": "human", "value": "Q"}], "chosen": {"from": "gpt", "value": "a"}, "rejected": {"from": "gpt", "value": "b"}})"),
      "(DPO)"));
  EXPECT_TRUE(Prepare(R"({"text": "a film", "label": true})").ok()) << "a class, no verdict";
  job_.datasets[0].fields.completion = "chosen";
  EXPECT_TRUE(Prepare(R"({"prompt": "Q", "chosen": "a", "rejected": "b"})").ok());
}

TEST_F(FaithfulRecordsTest, EveryLossHasItsRecords) {
  job_.sequence_len = 12;
  const auto data = Prepare(R"({"prompt": "Q", "completion": "a"}
{"prompt": "Q", "completion": "an answer that is cut"}
{"prompt": "Q", "completion": ""}
{"prompt": "a question of its own", "completion": "a"})");
  ASSERT_TRUE(data.ok()) << data.status();
  const auto places = [&](NoteKind kind) {
    std::string lines;
    for (const RecordPlace& place : data->findings[0].all().at({kind, ""}).first) {
      lines += std::to_string(place.line) + " ";
    }
    return lines;
  };
  EXPECT_EQ(places(NoteKind::kAnswerCut), "2 4 ");
  EXPECT_EQ(places(NoteKind::kTruncated), "2 ");
  EXPECT_EQ(places(NoteKind::kNoTarget), "4 ");
  EXPECT_EQ(places(NoteKind::kEmptyAnswer), "3 ");
  EXPECT_TRUE(Warned("empty answers: 1 record"));
}

// In each format that is found by itself, beside all that the format reads.
TEST_F(FaithfulRecordsTest, PreferenceMarksAreRefusedInEveryFormat) {
  const std::string turns =
      R"([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a"}])";
  const std::string talk = R"([{"from": "human", "value": "Q"}, {"from": "gpt", "value": "a"}])";
  const std::vector<std::string> answered = {
      R"("messages": )" + turns, R"("conversations": )" + talk,
      R"("instruction": "Q", "output": "a")", R"("prompt": "Q", "completion": "a")",
      R"("prompt": [{"role": "user", "content": "Q"}], )"
      R"("completion": [{"role": "assistant", "content": "a"}])"};
  std::vector<std::string> all = answered;
  all.insert(all.end(), {R"("text": "a")", R"("segments": [{"text": "a", "label": true}])",
                         R"("input_ids": [97], "labels": [97])"});
  for (const std::string& fields : all) {
    const absl::Status pair =
        Prepare("{" + fields + R"(, "chosen": "a", "rejected": "b"})").status();
    EXPECT_TRUE(Says(std::string(pair.message()), "(DPO)")) << fields << ": " << pair;
  }
  for (const std::string& fields : answered) {
    for (const char* label : {"false", "true"}) {
      const absl::Status single = Prepare("{" + fields + R"(, "label": )" + label + "}").status();
      EXPECT_TRUE(Says(std::string(single.message()), "(KTO)")) << fields << ": " << single;
    }
  }
}

// One function for both: what stands before a text when a model is trained and when it is asked.
TEST_F(FaithfulRecordsTest, TextsBeginInTrainingAsTheyDoWhenTheModelIsAsked) {
  auto tokenizer = nlohmann::json::parse(support::ReadFile(scratch_.path() + "/tokenizer.json"));
  tokenizer["post_processor"] = nlohmann::json::parse(
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
          {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
          "special_tokens": {"<bos>": {"id": "<bos>", "ids": [268], "tokens": ["<bos>"]}}})");
  scratch_.Write("tokenizer.json", tokenizer.dump());
  EXPECT_EQ(ShowOne(R"({"text": "ab"})"), "<bos>⟦ab<|endoftext|>⟧");
  EXPECT_EQ(ShowOne(R"({"text": "<bos>ab"})"), "<bos>⟦ab<|endoftext|>⟧");
  job_.generate.prompts = {"ab", "<bos>ab"};
  const auto prompts = PreparePrompts(job_);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ(prompts->ids[0], (std::vector<int32_t>{268, 97, 98}));
  EXPECT_EQ(prompts->ids[1], prompts->ids[0]);
}

TEST_F(FaithfulRecordsTest, AJobOfEarlierRulesIsRefusedWithoutItsTokens) {
  EXPECT_EQ(job_.data_rules, config::kDataRules);
  job_.data_rules = 1;
  EXPECT_TRUE(Says(std::string(Prepare(R"({"text": "a"})").status().message()),
                   "data_rules 1, this release has 2"));
}

TEST_F(FaithfulRecordsTest, AColumnThatIsNotReadRefusesNothing) {
  if (!LoadColumnarApi().ok()) GTEST_SKIP() << LoadColumnarApi().status().message();
  job_.datasets[0].path = "tests/fixtures/formats/pictures.parquet";
  const auto data = PrepareData(job_, options_);
  ASSERT_TRUE(data.ok()) << data.status();
  warnings_ = data->warnings;
  EXPECT_TRUE(Warned("fields that are not read: \"picture\" (1 record)"));
}

}  // namespace
}  // namespace coxswain::data
