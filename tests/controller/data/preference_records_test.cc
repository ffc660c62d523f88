// Preference records as other trainers write them: what becomes of their sides, and what is left
// out, each by one record.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "controller/data/documents/trained_chat.h"
#include "controller/data/look/inspect.h"
#include "controller/data/look/preview.h"
#include "controller/data/look/preview_text.h"
#include "controller/data/look/source_check.h"
#include "controller/data/prepare/prepare.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;
using Sides = std::vector<std::string>;

// The two turns in chatml, targets between brackets.
std::string ChatText(const std::string& question, const std::string& answer) {
  return "<|im_start|>user\\n" + question + "<|im_end|>\\n<|im_start|>assistant\\n⟦" + answer +
         "<|im_end|>⟧\\n";
}

class PreferenceRecordsTest : public testing::Test {
 protected:
  PreferenceRecordsTest() {
    job_.method = "dpo";
    job_.preference.loss = {"sigmoid"};
    job_.model_path = scratch_.path();
    job_.datasets = {config::DefaultDataset()};
    job_.datasets[0].format = DatasetFormat::kPreference;
    WriteByteTokenizer(scratch_.path());
    options_.cache_dir = scratch_.path() + "/cache";
    options_.threads = 2;
  }

  void Use(const std::string& json) {
    job_.datasets[0].path = scratch_.Write("train.jsonl", json + "\n");
  }

  // "chosen: text", targets between brackets, then what is said of it; or the error.
  Sides Show(const std::string& json) {
    Use(json);
    const auto documents = PreviewDocuments(job_, 16);
    if (!documents.ok()) return {std::string(documents.status().message())};
    Sides shown;
    for (const PreviewDocument& document : *documents) {
      std::string text = document.role + ": ";
      for (const PreviewRun& run : document.runs) {
        text += run.target ? "⟦" + run.text + "⟧" : run.text;
      }
      shown.push_back(text + (document.note.empty() ? "" : " (" + document.note + ")"));
    }
    return shown;
  }
  std::string Error(const std::string& json) {
    const Sides shown = Show(json);
    return shown.size() == 1 ? shown[0] : "no error";
  }
  // A public file, beside the golden models.
  void UsePublic(const std::string& name) {
    const char* fixtures = std::getenv("COXSWAIN_FIXTURES");
    job_.datasets[0].path =
        fixtures == nullptr ? "" : std::string(fixtures) + "/../data/preference/" + name;
  }
  PreparedData Prepare(const std::string& json) {
    Use(json);
    auto data = PrepareData(job_, options_);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? *std::move(data) : PreparedData();
  }
  static std::string TextOf(const TokenStore& store, int64_t document) {
    std::string text;
    for (const int32_t id : store.tokens(document)) {
      text += id < 256 ? std::string(1, static_cast<char>(id)) : "#";
    }
    return text;
  }
  static bool Says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static bool Says(const std::vector<std::string>& lines, const std::string& part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return Says(line, part); });
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
  PrepareOptions options_;
};

const char* const kTextPair = R"({"prompt": "Q ", "chosen": "yes", "rejected": "no"})";

// Source: TRL's standard format, with a prompt and without one.
TEST_F(PreferenceRecordsTest, TextsStayTextAndEndWithEos) {
  const Sides expected = {"chosen: Q ⟦yes<|endoftext|>⟧", "rejected: Q ⟦no<|endoftext|>⟧"};
  EXPECT_EQ(Show(kTextPair), expected);
  EXPECT_EQ(Show(R"({"prompt": "Q ", "chosen": "yes<|endoftext|>", "rejected": "no"})"), expected);
}

// Source: TRL 1.10 extract_prompt; a space goes with the completions.
TEST_F(PreferenceRecordsTest, AnImplicitPromptIsWhatBothTextsBeginWith) {
  EXPECT_EQ(Show(R"({"chosen": "The sky is blue", "rejected": "The sky is green"})"),
            (Sides{"chosen: The sky is⟦ blue<|endoftext|>⟧",
                   "rejected: The sky is⟦ green<|endoftext|>⟧"}));
  EXPECT_EQ(Show(R"({"chosen": "A: yes", "rejected": "A: yes, no"})"),
            (Sides{"chosen: A: ye⟦s<|endoftext|>⟧", "rejected: A: ye⟦s, no<|endoftext|>⟧"}));
  EXPECT_EQ(Show(R"({"chosen": "aé", "rejected": "aè"})"),
            (Sides{"chosen: a⟦é<|endoftext|>⟧", "rejected: a⟦è<|endoftext|>⟧"}));
}

// Source: TRL (prompt and sides, or whole conversations), LLaMA-Factory's ranking in ShareGPT,
// Axolotl's chat_template.default, UltraFeedback with prompt, messages and scores beside.
TEST_F(PreferenceRecordsTest, MessagesAreRenderedByTheChatTemplate) {
  const Sides expected = {"chosen: " + ChatText("Q", "yes"), "rejected: " + ChatText("Q", "no")};
  const std::string user = R"({"role": "user", "content": "Q"})";
  const std::string yes = R"({"role": "assistant", "content": "yes"})";
  const std::string no = R"({"role": "assistant", "content": "no"})";
  const std::vector<std::string> records = {
      R"({"prompt": [)" + user + R"(], "chosen": [)" + yes + R"(], "rejected": [)" + no + "]}",
      R"({"chosen": [)" + user + ", " + yes + R"(], "rejected": [)" + user + ", " + no + "]}",
      R"({"conversations": [{"from": "human", "value": "Q"}], "chosen": {"from": "gpt", "value": "yes"}, "rejected": {"from": "gpt", "value": "no"}})",
      R"({"messages": [)" + user + R"(], "chosen": )" + yes + R"(, "rejected": )" + no + "}",
      R"({"messages": [)" + user + R"(], "chosen": "yes", "rejected": "no"})",
      R"({"messages": "Q", "chosen": "yes", "rejected": "no"})",
      R"({"prompt": "Q", "prompt_id": "", "messages": [)" + user + ", " + yes +
          R"(], "score_chosen": 8.0, "score_rejected": 2.0, "chosen": [)" + user + ", " + yes +
          R"(], "rejected": [)" + user + ", " + no + "]}",
      R"({"question": "Q", "chosen": "yes", "rejected": "no"})",
      R"({"input": "Q", "chosen": "yes", "rejected": "no"})",
      R"({"instruction": "Q", "input": "", "chosen_response": "yes", "rejected_response": "no"})",
  };
  for (const std::string& record : records) EXPECT_EQ(Show(record), expected) << record;
}

// Source: Axolotl's chatml.prompt_pairs, LLaMA-Factory's ranking in alpaca.
TEST_F(PreferenceRecordsTest, PromptStyleChatMakesTurnsOfTexts) {
  job_.datasets[0].prompt_style = config::PromptStyle::kChat;
  EXPECT_EQ(Show(R"({"prompt": "Q", "chosen": "yes", "rejected": "no"})"),
            (Sides{"chosen: " + ChatText("Q", "yes"), "rejected: " + ChatText("Q", "no")}));
  const Sides told = Show(
      R"({"system": "S", "instruction": "Q", "input": "R", "history": [["a", "b"]], "chosen": "yes", "rejected": "no"})");
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1],
            "rejected: <|im_start|>system\\nS<|im_end|>\\n<|im_start|>user\\na<|im_end|>\\n"
            "<|im_start|>assistant\\nb<|im_end|>\\n" +
                ChatText("Q\\nR", "no"));
  EXPECT_TRUE(Says(Error(R"({"chosen": "yes", "rejected": "no"})"),
                   "train.jsonl:1: nothing is asked before \"chosen\""));
}

// TRL takes all that follows the prompt for the completion.
TEST_F(PreferenceRecordsTest, ACompletionOfSeveralTurnsIsTrainedAsAWhole) {
  const Sides shown = Show(
      R"({"prompt": [{"role": "user", "content": "Q"}], "chosen": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}], "rejected": [{"role": "assistant", "content": "no"}]})");
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0],
            "chosen: <|im_start|>user\\nQ<|im_end|>\\n<|im_start|>assistant\\n⟦a<|im_end|>\\n"
            "<|im_start|>user\\nr<|im_end|>\\n<|im_start|>assistant\\nb<|im_end|>⟧\\n");
}

// Source: LLaMA-Factory before `ranking` (output), Nectar (answers with ranks), UltraFeedback
// (completions with scores).
TEST_F(PreferenceRecordsTest, RankedListsGiveTheBestAndTheWorst) {
  const Sides expected = {"chosen: " + ChatText("Q", "yes"), "rejected: " + ChatText("Q", "no")};
  for (
      const std::string list :
      {R"("output": ["yes", "no"])", R"("completions": ["yes", "so so", "no"])",
       R"("completions": ["no", "yes", "so so"], "scores": [1, 9.5, 3])",
       R"("completions": ["no", "yes", "so so"], "ranks": [3, 1, 2])",
       R"("answers": [{"answer": "no", "rank": 7}, {"answer": "yes", "rank": 1.0}])",
       R"("responses": [{"role": "assistant", "content": "no", "score": 0}, {"role": "assistant", "content": "yes", "score": 1}])"}) {
    const Sides shown = Show(R"({"instruction": "Q", )" + list + "}");
    EXPECT_EQ(shown, expected) << list;
  }
  EXPECT_TRUE(Says(Error(R"({"instruction": "Q", "output": ["yes"]})"), "holds 1 completions"));
  EXPECT_TRUE(Says(Error(R"({"prompt": "Q", "completions": ["a", "b"], "scores": [1, 1]})"),
                   "equal scores: none of them is preferred"));
}

TEST_F(PreferenceRecordsTest, FieldsMayHaveOtherNames) {
  job_.datasets[0].fields.chosen = "good";
  job_.datasets[0].fields.rejected = "bad";
  job_.datasets[0].fields.prompt = "ask";
  EXPECT_EQ(Show(R"({"ask": "Q ", "good": "yes", "bad": "no", "chosen": 7})"),
            (Sides{"chosen: Q ⟦yes<|endoftext|>⟧", "rejected: Q ⟦no<|endoftext|>⟧"}));
}

TEST_F(PreferenceRecordsTest, FaultsAreOneLineWithTheirPlace) {
  const std::string place = job_.model_path + "/train.jsonl:1: ";
  const auto fault = [&](const std::string& json) {
    const std::string error = Error(json);
    EXPECT_TRUE(Says(error, place)) << error;
    return error.substr(std::min(error.size(), place.size()));
  };
  EXPECT_EQ(fault(R"({"prompt": "Q", "chosen": "a"})"),
            "field \"rejected\" is missing beside \"chosen\"; a preference pair has both");
  EXPECT_EQ(fault(R"({"prompt": "Q", "chosen": null, "rejected": "a"})"),
            "field \"chosen\" is missing beside \"rejected\"; a preference pair has both");
  EXPECT_EQ(fault(R"({"prompt": "Q", "chosen": "a", "rejected": " "})"),
            "field \"rejected\" is an empty answer");
  EXPECT_EQ(
      fault(
          R"({"messages": [{"role": "user", "content": "Q"}], "chosen": {"role": "assistant", "content": ""}, "rejected": "a"})"),
      "chosen: messages[1] is an empty assistant turn");
  EXPECT_EQ(fault(R"({"prompt": "Q", "chosen": 7, "rejected": "a"})"),
            "field \"chosen\" is 7, neither a text nor messages");
  EXPECT_EQ(fault(R"({"prompt": "Q", "chosen": [], "rejected": "a"})"),
            "field \"chosen\" holds no messages");
  EXPECT_TRUE(Says(fault(R"({"prompt": "Q", "completion": "a"})"),
                   "fields \"chosen\" and \"rejected\" are missing"));
  EXPECT_TRUE(Says(fault(R"({"chosen": {"role": "assistant", "content": "a"}, "rejected": "b"})"),
                   "nothing is asked before \"chosen\": the record has no prompt, messages"));
  job_.on_bad_record = config::OnBadRecord::kSkip;
  const PreparedData data = Prepare(std::string(kTextPair) + R"(
{"prompt": "Q", "chosen": "a"})");
  EXPECT_EQ(data.train_stats.bad_records, 1);
}

// Invariant data-13.
TEST_F(PreferenceRecordsTest, AStoreHoldsChosenAndRejectedSideBySide) {
  job_.datasets[0].weight = 2;
  const PreparedData data = Prepare(std::string(kTextPair) + R"(
{"prompt": "R ", "chosen": "ja", "rejected": "nein"})");
  ASSERT_NE(data.train, nullptr);
  EXPECT_EQ(data.documents_per_unit, 2);
  EXPECT_EQ(data.train_stats.records_read, 2);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < data.train->num_documents(); ++i) texts.push_back(TextOf(*data.train, i));
  EXPECT_EQ(texts, (std::vector<std::string>{"Q yes#", "Q no#", "Q yes#", "Q no#", "R ja#",
                                             "R nein#", "R ja#", "R nein#"}));
  EXPECT_EQ(data.train->targets(0), 4);  // yes and the end
}

TEST_F(PreferenceRecordsTest, PairsAreHeldBackAsOne) {
  job_.val_set_size = 2;
  std::string records = kTextPair;
  for (int i = 0; i < 5; ++i) records += std::string("\n") + kTextPair;
  const PreparedData data = Prepare(records);
  ASSERT_NE(data.eval, nullptr);
  EXPECT_EQ(data.eval->num_documents(), 4);
  EXPECT_EQ(TextOf(*data.eval, 2), "Q yes#");
  EXPECT_EQ(data.train->num_documents(), 8);
}

TEST_F(PreferenceRecordsTest, EqualSidesAreLeftOutAndTold) {
  job_.sequence_len = 8;
  const std::string records = std::string(kTextPair) + R"(
{"prompt": "Q ", "chosen": "same", "rejected": "same"}
{"prompt": "Q ", "chosen": "a long answer", "rejected": "a long response"}
{"prompt": "a prompt that is long", "chosen": "a", "rejected": "b"}
{"prompt": "Q ", "chosen": "short", "rejected": "far too long"})";
  const PreparedData data = Prepare(records);
  ASSERT_NE(data.train, nullptr);
  EXPECT_EQ(data.train_stats.equal_sides, 1);
  EXPECT_EQ(data.train_stats.equal_once_cut, 1);
  EXPECT_EQ(data.train_stats.no_target, 1);
  EXPECT_EQ(data.train_stats.truncated, 1);
  EXPECT_EQ(data.train->num_documents(), 4);
  EXPECT_TRUE(Says(data.warnings,
                   "1 of 5 records were dropped: chosen equals rejected; such "
                   "records: "));
  EXPECT_TRUE(Says(data.warnings,
                   "chosen equals rejected once both are cut to sequence_len; such "
                   "records: " +
                       job_.datasets[0].path + ":3"));
  const Sides shown = Show(records);
  ASSERT_EQ(shown.size(), 10u);
  EXPECT_TRUE(Says(shown[2], "(dropped: chosen equals rejected)")) << shown[2];
  EXPECT_TRUE(Says(shown[5], "once both are cut to sequence_len")) << shown[5];
  const PreparedData again = *PrepareData(job_, options_);  // from the cache
  EXPECT_EQ(again.train_stats.equal_once_cut, 1);
  EXPECT_EQ(again.documents_per_unit, 2);
}

TEST_F(PreferenceRecordsTest, ASideAboveTheLengthDropsItsPair) {
  job_.sequence_len = 8;
  job_.excess_length = config::ExcessLength::kDrop;
  const PreparedData data = Prepare(std::string(kTextPair) + R"(
{"prompt": "Q ", "chosen": "short", "rejected": "far too long"})");
  EXPECT_EQ(data.train_stats.dropped_too_long, 1);
  EXPECT_EQ(data.train->num_documents(), 2);
}

TEST_F(PreferenceRecordsTest, NamesDecideAgainstScoresAndThatIsTold) {
  const PreparedData data = Prepare(
      R"({"prompt": "Q", "chosen": "a", "rejected": "b", "score_chosen": 1, "score_rejected": 4})");
  EXPECT_EQ(TextOf(*data.train, 0), "Qa#");
  EXPECT_TRUE(Says(data.warnings, "the scores of 1 record prefer the rejected side"));
}

TEST_F(PreferenceRecordsTest, FieldsThatNothingReadsAreTold) {
  const PreparedData data =
      Prepare(R"({"prompt": "Q", "chosen": "a", "rejected": "b", "system": "S", "source": "web"})");
  EXPECT_TRUE(Says(data.warnings, "fields that are not read: \"source\" (1 record), \"system\""))
      << data.warnings.size();
}

// Other losses on pairs train the same tokens; the tokens of supervised tuning are others.
TEST_F(PreferenceRecordsTest, TheContentHashIsThatOfPairs) {
  const std::string dpo = Prepare(kTextPair).content_hash;
  job_.method = "orpo";
  EXPECT_EQ(Prepare(kTextPair).content_hash, dpo);
  job_.datasets[0].fields.chosen = "chosen";
  EXPECT_NE(Prepare(kTextPair).content_hash, dpo);
}

TEST_F(PreferenceRecordsTest, PreviewNamesTheSideInTextAndJson) {
  Use(kTextPair);
  const auto documents = PreviewDocuments(job_, 1);
  ASSERT_TRUE(documents.ok());
  const std::string text = PreviewText(*documents, {});
  EXPECT_TRUE(Says(text, ":1: chosen: 6 tokens, 4 targets\nQ ⟦yes<|endoftext|>⟧\n")) << text;
  EXPECT_TRUE(Says(text, ":1: rejected: 5 tokens, 3 targets\nQ ⟦no<|endoftext|>⟧\n")) << text;
  EXPECT_TRUE(Says(text, "  rejected  no\n")) << text;
  const auto json = nlohmann::json::parse(PreviewJson(*documents));
  EXPECT_EQ(json["documents"][1]["role"], "rejected");
}

// What an export says of the end of answers.
TEST_F(PreferenceRecordsTest, ConversationsEndWhereTheirTemplateEndsThem) {
  job_.chat_template = "chatml";
  Use(R"({"messages": "Q", "chosen": "yes", "rejected": "no"})");
  const auto trained = TrainedChatOf(job_);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(trained->ends, std::vector<int64_t>{259});  // <|im_end|>
  Use(kTextPair);
  EXPECT_TRUE(TrainedChatOf(job_)->ends.empty());
}

// Whatever the method: `cox data inspect` and `cox data check` are told of none.
TEST_F(PreferenceRecordsTest, InspectAndCheckKnowPairsByTheirFields) {
  job_.method = "sft";
  job_.datasets[0].format = DatasetFormat::kAuto;
  Use(std::string(kTextPair) + R"(
{"prompt": "Q", "chosen": "a", "rejected": "a"}
{"prompt": "Q", "chosen": "a"})");
  const auto inspected = InspectDataset(job_, job_.datasets[0]);
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->format, DatasetFormat::kPreference);
  EXPECT_EQ(inspected->bad_records, 1);
  EXPECT_EQ(inspected->tokens.documents, 4);
  const auto checked = CheckSource(job_, job_.datasets[0]);
  ASSERT_TRUE(checked.ok()) << checked.status();
  const std::string report = SourceReportText(*checked, 10);
  EXPECT_TRUE(Says(report, "format preference, 3 records")) << report;
  EXPECT_TRUE(Says(report, "dropped: chosen equals rejected: 1 record")) << report;
  EXPECT_TRUE(Says(report, "\"rejected\" is missing beside")) << report;
  Use(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a"}], "label": true})");
  EXPECT_EQ(InspectDataset(job_, job_.datasets[0])->format, DatasetFormat::kUnpairedPreference);
}

class LabelledRecordsTest : public PreferenceRecordsTest {
 protected:
  LabelledRecordsTest() {
    job_.method = "kto";
    job_.preference.loss = {"kto"};
    job_.datasets[0].format = DatasetFormat::kUnpairedPreference;
  }

  // "text: label" of each document of the store.
  static std::vector<std::string> Labelled(const TokenStore& store) {
    std::vector<std::string> shown;
    for (int64_t i = 0; i < store.num_documents(); ++i) {
      shown.push_back(TextOf(store, i) + ": " + (store.values(i)[0] == 1 ? "good" : "bad"));
    }
    return shown;
  }
};

const char* const kThreeLabels = R"({"prompt": "A ", "completion": "a", "label": true}
{"prompt": "BB ", "completion": "bb", "label": false}
{"prompt": "C ", "completion": "ccc", "label": true})";

// Source: TRL's unpaired preference, LLaMA-Factory's kto_tag in alpaca and in messages, Axolotl's
// kto strategies.
TEST_F(LabelledRecordsTest, CompletionsHaveTheirLabels) {
  EXPECT_EQ(Show(R"({"prompt": "Q ", "completion": "a", "label": false})"),
            (Sides{"undesirable: Q ⟦a<|endoftext|>⟧"}));
  const Sides expected = {"desirable: " + ChatText("Q", "a")};
  const std::string turns =
      R"([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a"}])";
  for (
      const std::string& record :
      {R"({"messages": )" + turns + R"(, "label": true})",
       R"({"messages": )" + turns + R"(, "label": "True"})",
       R"({"completion": )" + turns + R"(, "label": 1})",
       std::string(
           R"({"prompt": [{"role": "user", "content": "Q"}], "completion": [{"role": "assistant", "content": "a"}], "label": true})"),
       std::string(R"({"instruction": "Q", "input": "", "output": "a", "kto_tag": true})"),
       std::string(R"({"question": "Q", "completion": "a", "label": true})")}) {
    EXPECT_EQ(Show(record), expected) << record;
  }
  job_.datasets[0].fields.label = "good";
  EXPECT_EQ(Show(R"({"messages": )" + turns + R"(, "good": true, "label": 7})"), expected);
}

TEST_F(LabelledRecordsTest, FaultsNameTheField) {
  EXPECT_TRUE(Says(Error(R"({"prompt": "Q", "completion": "a"})"),
                   "train.jsonl:1: field \"label\" is missing"));
  EXPECT_TRUE(Says(Error(R"({"prompt": "Q", "completion": "a", "label": 3})"),
                   "field \"label\" is 3, but a completion is good (true, 1) or bad"));
  EXPECT_TRUE(Says(Error(R"({"prompt": "Q", "completion": "", "label": true})"),
                   "field \"completion\" is an empty answer"));
  EXPECT_TRUE(Says(Error(R"({"messages": [{"role": "user", "content": "Q"}], "label": true})"),
                   "field \"messages\" holds one message"));
}

// TRL cycles within a batch: the first prompt takes the last completion. Its unit is the last.
TEST_F(LabelledRecordsTest, EachPromptIsFollowedByTheCompletionBefore) {
  const PreparedData data = Prepare(kThreeLabels);
  ASSERT_NE(data.train, nullptr);
  EXPECT_EQ(data.documents_per_unit, 2);
  EXPECT_EQ(Labelled(*data.train),
            (std::vector<std::string>{"BB bb#: bad", "BB a#: bad", "C ccc#: good", "C bb#: good",
                                      "A a#: good", "A ccc#: good"}));
  EXPECT_EQ(data.train->targets(1), 2) << "a and the end";
  EXPECT_EQ(data.train_stats.records_read, 3);
}

TEST_F(LabelledRecordsTest, AMismatchedCompletionIsCutToTheLength) {
  job_.sequence_len = 6;
  const PreparedData data = Prepare(kThreeLabels);
  EXPECT_EQ(TextOf(*data.train, 5), "A ccc#");
  job_.sequence_len = 5;
  const PreparedData cut = Prepare(kThreeLabels);
  EXPECT_EQ(TextOf(*cut.train, 0), "BB bb");
  EXPECT_EQ(TextOf(*cut.train, 5), "A ccc");
  EXPECT_EQ(cut.train->targets(5), 3);
}

TEST_F(LabelledRecordsTest, WithoutKlACompletionStandsAlone) {
  const std::string with_kl = Prepare(kThreeLabels).content_hash;
  job_.preference.loss = {"apo_zero_unpaired"};
  const PreparedData data = Prepare(kThreeLabels);
  EXPECT_EQ(data.documents_per_unit, 1);
  EXPECT_EQ(Labelled(*data.train),
            (std::vector<std::string>{"A a#: good", "BB bb#: bad", "C ccc#: good"}));
  EXPECT_NE(data.content_hash, with_kl);
}

TEST_F(LabelledRecordsTest, PairsAreAGoodAndABadCompletion) {
  job_.preference.loss = {"apo_zero_unpaired"};
  job_.datasets[0].weight = 2;
  const PreparedData data = Prepare(kTextPair);
  EXPECT_EQ(Labelled(*data.train),
            (std::vector<std::string>{"Q yes#: good", "Q yes#: good", "Q no#: bad", "Q no#: bad"}));
}

TEST_F(LabelledRecordsTest, ThePublicLabelsAreRead) {
  UsePublic("kto_en_demo.json");
  if (job_.datasets[0].path.empty()) GTEST_SKIP() << "COXSWAIN_FIXTURES names no folder";
  job_.sequence_len = 16384;
  const auto data = PrepareData(job_, options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train_stats.records_read, 300);
  EXPECT_EQ(data->train->num_documents(), 600);
  EXPECT_EQ(data->train_stats.bad_records, 0);
}

// The public files of LLaMA-Factory, where they are at hand.
TEST_F(PreferenceRecordsTest, ThePublicPairsAreRead) {
  UsePublic("dpo_en_demo.json");
  if (job_.datasets[0].path.empty()) GTEST_SKIP() << "COXSWAIN_FIXTURES names no folder";
  job_.sequence_len = 16384;
  const auto data = PrepareData(job_, options_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train_stats.records_read, 300);
  EXPECT_EQ(data->train->num_documents(), 2 * (300 - data->train_stats.equal_sides));
  EXPECT_EQ(data->train_stats.bad_records, 0);
}

}  // namespace
}  // namespace coxswain::data
