// Records of reward models and of classification: what they become, their values beside them, and
// what is refused, each by one record.
#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "common/config/parser/job_parser.h"
#include "controller/data/documents/trained_chat.h"
#include "controller/data/look/inspect.h"
#include "controller/data/look/preview.h"
#include "controller/data/look/preview_text.h"
#include "controller/data/look/source_check.h"
#include "controller/data/prepare/prepare.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using ShownTexts = std::vector<std::string>;

// A job as its file has it, on one source of records.
class ScoreRecordsTest : public testing::Test {
 protected:
  ScoreRecordsTest() {
    WriteByteTokenizer(scratch_.path());
    options_.cache_dir = scratch_.path() + "/cache";
    options_.threads = 2;
  }

  // `spec`: lines below spec.
  void Use(const std::string& spec, const std::string& records,
           const std::string& file = "train.jsonl") {
    const std::string path = scratch_.Write(file, records + "\n");
    config::ParsedJob parsed = config::ParseJob(
        "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: j}\nspec:\n"
        "  base_model: {path: " +
            scratch_.path() + "}\n  datasets: [{path: " + path + "}]\n" +
            "  chat_template: chatml\n" + spec,
        "/");
    ASSERT_TRUE(parsed.errors.empty()) << parsed.errors[0].path << parsed.errors[0].message;
    job_ = std::move(parsed.spec);
  }

  void EditTokenizer(const std::string& key, const nlohmann::json& value) {
    const std::string path = scratch_.path() + "/tokenizer.json";
    nlohmann::json tokenizer = nlohmann::json::parse(std::ifstream(path));
    tokenizer[key] = value;
    std::ofstream(path) << tokenizer.dump();
  }

  // "chosen: margin 2: text", targets between brackets, then what is said of it; or the error.
  ShownTexts Shown() {
    const auto documents = PreviewDocuments(job_, 16);
    if (!documents.ok()) return {std::string(documents.status().message())};
    ShownTexts shown;
    for (const PreviewDocument& document : *documents) {
      std::string text = document.role.empty() ? "" : document.role + ": ";
      if (!document.value.empty()) text += document.value + ": ";
      for (const PreviewRun& run : document.runs) {
        text += run.target ? "⟦" + run.text + "⟧" : run.text;
      }
      for (const std::string& field : document.unwritten) text += " (unwritten " + field + ")";
      shown.push_back(text + (document.note.empty() ? "" : " (" + document.note + ")"));
    }
    return shown;
  }
  std::string Error() {
    const ShownTexts shown = Shown();
    return shown.size() == 1 ? shown[0] : "no error";
  }
  PreparedData Prepare() {
    auto data = PrepareData(job_, options_);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? *std::move(data) : PreparedData();
  }
  // "text: 1, 0" of each document; ids beyond bytes are #.
  static ShownTexts Stored(const PreparedData& data) {
    ShownTexts lines;
    if (data.train == nullptr) return lines;
    const TokenStore& store = *data.train;
    for (int64_t i = 0; i < store.num_documents(); ++i) {
      std::string line;
      for (const int32_t id : store.tokens(i)) {
        line += id < 256 ? std::string(1, static_cast<char>(id)) : "#";
      }
      line += ":";
      for (const float value : store.values(i)) line += " " + nlohmann::json(value).dump();
      lines.push_back(line);
    }
    return lines;
  }
  static bool Says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static bool Says(const ShownTexts& lines, const std::string& part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return Says(line, part); });
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_;
  PrepareOptions options_;
};

constexpr char kRewardMethod[] = "  method: reward\n";

TEST_F(ScoreRecordsTest, PairsHaveTheirMargins) {
  Use(kRewardMethod, R"({"prompt": "Q ", "chosen": "yes", "rejected": "no", "margin": 1.5}
{"prompt": "R ", "chosen": "a", "rejected": "b"}
{"prompt": "S ", "chosen": "c", "rejected": "c", "margin": 9})");
  EXPECT_EQ(Shown(),
            (ShownTexts{"chosen: margin 1.5: Q ⟦yes<|endoftext|>⟧", "rejected: Q ⟦no<|endoftext|>⟧",
                        "chosen: margin 0: R ⟦a<|endoftext|>⟧", "rejected: R ⟦b<|endoftext|>⟧",
                        "chosen: margin 9: S ⟦c<|endoftext|>⟧ (dropped: chosen equals rejected)",
                        "rejected: S ⟦c<|endoftext|>⟧ (dropped: chosen equals rejected)"}));
  const PreparedData data = Prepare();
  ASSERT_NE(data.train, nullptr);
  EXPECT_EQ(data.documents_per_unit, 2);
  EXPECT_EQ(Stored(data), (ShownTexts{"Q yes#: 1.5", "Q no#: 0.0", "R a#: 0.0", "R b#: 0.0"}));
  EXPECT_EQ(data.train_stats.equal_sides, 1);
  EXPECT_TRUE(Says(data.warnings, "were dropped: chosen equals rejected; such records:"));
  EXPECT_FALSE(Says(data.warnings, "not read"));
}

TEST_F(ScoreRecordsTest, AMarginIsAFiniteNumber) {
  const auto with = [&](const std::string& margin) {
    Use(kRewardMethod,
        R"({"prompt": "Q ", "chosen": "a", "rejected": "b", "margin": )" + margin + "}");
    return Shown()[0];
  };
  for (const char* none : {"null", "\"\"", "0"}) {
    EXPECT_EQ(with(none), "chosen: margin 0: Q ⟦a<|endoftext|>⟧") << none;
  }
  EXPECT_EQ(with("\"0.25\""), "chosen: margin 0.25: Q ⟦a<|endoftext|>⟧") << "of a CSV file";
  EXPECT_EQ(with("-2"), "chosen: margin -2: Q ⟦a<|endoftext|>⟧");
  for (const char* bad : {"true", "\"far\"", "[1]", "1e39", "\"inf\"", "\"nan\""}) {
    EXPECT_TRUE(Says(with(bad), "train.jsonl:1: field \"margin\" is ")) << bad;
    EXPECT_TRUE(Says(with(bad), ", not a finite number")) << bad;
  }
}

TEST_F(ScoreRecordsTest, OtherMethodsReadNoMargin) {
  Use("  method: dpo\n", R"({"prompt": "Q ", "chosen": "a", "rejected": "b", "margin": "far"})");
  const PreparedData data = Prepare();
  ASSERT_NE(data.train, nullptr);
  EXPECT_EQ(data.train->values_per_document(), 0);
  EXPECT_TRUE(Says(data.warnings, "fields that are not read: \"margin\""));
}

std::string ClassesJob(const std::string& section, const std::string& more = "") {
  return "  method: classification\n  classification: " + section + "\n" + more;
}
const std::string kNamedClasses = "{label_names: [negative, positive]}";

// Source: transformers' tokenizer(text) of a tokenizer whose post-processor adds nothing.
TEST_F(ScoreRecordsTest, ATextIsReadWholeAndHasItsClass) {
  Use(ClassesJob(kNamedClasses), R"({"text": "good", "label": "positive"}
{"text": "bad", "label": 0}
{"text": "x", "labels": true})");
  EXPECT_EQ(Shown(),
            (ShownTexts{"label positive: g⟦ood⟧", "label negative: b⟦ad⟧", "label positive: x"}));
  const PreparedData data = Prepare();
  ASSERT_NE(data.train, nullptr);
  EXPECT_EQ(data.documents_per_unit, 1);
  EXPECT_EQ(Stored(data), (ShownTexts{"good: 1.0", "bad: 0.0", "x: 1.0"}));
  EXPECT_EQ(data.train->num_targets(), 5);
  EXPECT_EQ(data.train_stats.no_target, 0);
  EXPECT_EQ(data.train_stats.classes, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(data.warnings.empty()) << data.warnings[0];
  EXPECT_EQ(Prepare().train_stats.classes, (std::vector<int64_t>{1, 2})) << "from the cache";
}

TEST_F(ScoreRecordsTest, OneTokenIsEnough) {
  Use(ClassesJob(kNamedClasses), R"({"text": "x", "label": 1}
{"text": "y", "label": 0})");
  EXPECT_EQ(Stored(Prepare()), (ShownTexts{"x: 1.0", "y: 0.0"}));
}

TEST_F(ScoreRecordsTest, ATextWithoutATokenIsDropped) {
  Use(ClassesJob(kNamedClasses), R"({"text": " ", "label": 1}
{"text": "y", "label": 0})");
  EditTokenizer("normalizer", {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  const PreparedData data = Prepare();
  EXPECT_EQ(Stored(data), ShownTexts{"y: 0.0"});
  EXPECT_EQ(data.train_stats.no_target, 1);
}

TEST_F(ScoreRecordsTest, SpecialTokensInATextAreTokens) {
  Use(ClassesJob(kNamedClasses), R"({"text": "a<|im_end|>b", "label": 1})");
  EXPECT_EQ(Stored(Prepare()), ShownTexts{"a#b: 1.0"});
}

TEST_F(ScoreRecordsTest, AConversationIsRenderedToItsEnd) {
  Use(ClassesJob(kNamedClasses),
      R"({"messages": [{"role": "user", "content": "Q<|im_end|>"}], "label": 1}
{"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "a"}], "label": 0})");
  EXPECT_EQ(Shown(), (ShownTexts{"label positive: <|im_start|>⟦user\\nQ<|im_end|><|im_end|>\\n⟧",
                                 "label negative: <|im_start|>⟦user\\nQ<|im_end|>\\n<|im_start|>"
                                 "assistant\\na<|im_end|>\\n⟧"}));
  EXPECT_EQ(Stored(Prepare()).at(0), "#user\nQ<|im_end|>#\n: 1.0") << "content forges no end";
  const auto trained = TrainedChatOf(job_);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_FALSE(trained->chat_template.empty());
}

TEST_F(ScoreRecordsTest, TheTextIsReadUnlessMessagesAreNamed) {
  const std::string both =
      R"({"text": "t", "messages": [{"role": "user", "content": "Q"}], "label": 1})";
  Use(ClassesJob(kNamedClasses), both);
  EXPECT_EQ(Shown(), ShownTexts{"label positive: t (unwritten messages[0].content)"});
  job_.datasets[0].fields.messages = "messages";
  EXPECT_EQ(Shown(), ShownTexts{"label positive: <|im_start|>⟦user\\nQ<|im_end|>\\n⟧"});
  Use(ClassesJob(kNamedClasses), R"({"sentence": "t", "sentiment": 1, "label": 7})");
  job_.datasets[0].fields.text = "sentence";
  job_.datasets[0].fields.label = "sentiment";
  EXPECT_EQ(Shown(), ShownTexts{"label positive: t"});
}

TEST_F(ScoreRecordsTest, CsvHasTexts) {
  Use(ClassesJob(kNamedClasses), "text,label\ngood,positive\nbad,0\n", "train.csv");
  EXPECT_EQ(Stored(Prepare()), (ShownTexts{"good: 1.0", "bad: 0.0"}));
  Use(ClassesJob("{num_labels: 3, problem: multi_label}"), "text,label\na,\"[0, 2]\"\n", "m.csv");
  EXPECT_EQ(Stored(Prepare()), (ShownTexts{"a: 1.0 0.0 1.0"}));
}

TEST_F(ScoreRecordsTest, SeveralClassesAndNumbers) {
  Use(ClassesJob("{label_names: [a, b, c], problem: multi_label}"),
      R"({"text": "x", "label": ["c", 0]}
{"text": "y", "label": [0, 1, 1]}
{"text": "z", "label": []})");
  EXPECT_EQ(Shown(), (ShownTexts{"label a, c: x", "label b, c: y", "label none: z"}));
  const PreparedData several = Prepare();
  EXPECT_EQ(Stored(several), (ShownTexts{"x: 1.0 0.0 1.0", "y: 0.0 1.0 1.0", "z: 0.0 0.0 0.0"}));
  EXPECT_EQ(several.train_stats.classes, (std::vector<int64_t>{1, 1, 2}));
  Use(ClassesJob("{num_labels: 2, problem: regression}"), R"({"text": "x", "label": [0.5, -3]})");
  EXPECT_EQ(Shown(), ShownTexts{"label 0.5, -3: x"});
  const PreparedData numbers = Prepare();
  Use(ClassesJob("{num_labels: 1, problem: regression}"),
      R"({"text": "x", "label": 18446744073709551615})");
  EXPECT_EQ(Stored(Prepare()), ShownTexts{"x: 1.8446744073709552e+19"});
  EXPECT_EQ(Stored(numbers), ShownTexts{"x: 0.5 -3.0"});
  EXPECT_TRUE(numbers.train_stats.classes.empty());
}

TEST_F(ScoreRecordsTest, FaultsNameRecordFieldAndWhatIsWanted) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"text": "x"})", "field \"label\" is missing; it holds the class of the text"},
      {R"({"text": "x", "label": null})", "field \"label\" is missing"},
      {R"({"label": 1})", "fields \"text\" and \"messages\" are missing"},
      {R"({"text": "", "label": 1})", "field \"text\" is an empty text"},
      {R"({"text": ["x"], "label": 1})", "field \"text\" is array, not a string"},
      {R"({"text": "x", "label": {"a": 1}})", "field \"label\" is object, not a class or a number"},
      {R"({"text": "x", "label": [[1]]})", "field \"label[0]\" is array, not a class"},
      {R"({"text": "x", "label": "neutral"})",
       "the label \"neutral\" is no class; wanted: an index of 0 to 1, or one of the names "
       "negative, positive, or true or false"},
      {R"({"text": "x", "label": 2})", "the label 2 is no class"},
      {R"({"text": "x", "label": 1.0})", "the label 1.0 is no class"},
      {R"({"messages": [], "label": 1})", "has no messages"},
  };
  for (const auto& [record, fault] : cases) {
    Use(ClassesJob(kNamedClasses), record);
    EXPECT_TRUE(Says(Error(), std::string("train.jsonl:1: "))) << record << Error();
    EXPECT_TRUE(Says(Error(), fault)) << record << Error();
  }
  Use(ClassesJob(kNamedClasses, "  on_bad_record: skip\n"), R"({"text": "x", "label": 2}
{"text": "y", "label": 1})");
  EXPECT_EQ(Prepare().train_stats.bad_records, 1);
}

// Source: transformers' tokenizer(text, truncation=True), which keeps what is around a text.
TEST_F(ScoreRecordsTest, TruncationCutsTheTextAtItsEnd) {
  const std::string short_bins = "  sequence_len: 4\n";
  Use(ClassesJob(kNamedClasses, short_bins), R"({"text": "abcdef", "label": 1}
{"text": "g", "label": 0})");
  EXPECT_EQ(Shown(), (ShownTexts{"label positive: a⟦bcd⟧ (truncated to sequence_len)",
                                 "label negative: g"}));
  const PreparedData data = Prepare();
  EXPECT_EQ(data.train_stats.truncated, 1);
  EXPECT_FALSE(Says(data.warnings, "cuts off targets"));
  EditTokenizer("post_processor", {{"type", "RobertaProcessing"},
                                   {"cls", {"<s>", 264}},
                                   {"sep", {"</s>", 265}},
                                   {"trim_offsets", true},
                                   {"add_prefix_space", false}});
  EXPECT_EQ(Shown(), (ShownTexts{"label positive: <s>⟦ab</s>⟧ (truncated to sequence_len)",
                                 "label negative: <s>⟦g</s>⟧"}));
  job_.excess_length = config::ExcessLength::kDrop;
  EXPECT_EQ(Shown()[0], "label positive: <s>⟦abcdef</s>⟧ (dropped: above sequence_len)");
}

TEST_F(ScoreRecordsTest, AClassWithoutARecordIsTold) {
  Use(ClassesJob("{label_names: [a, b, c]}"), R"({"text": "x", "label": "b"})");
  EXPECT_EQ(Prepare().warnings, ShownTexts{"train: no record of 2 of 3 classes: a, c"});
}

TEST_F(ScoreRecordsTest, PreviewShowsValuesInBothForms) {
  Use(ClassesJob(kNamedClasses), R"({"text": "good", "label": "positive"})");
  const auto documents = PreviewDocuments(job_, 1);
  ASSERT_TRUE(documents.ok());
  EXPECT_TRUE(Says(PreviewText(*documents, {}), "train.jsonl:1: label positive: 4 tokens"));
  const auto json = nlohmann::json::parse(PreviewJson(*documents));
  EXPECT_EQ(json["documents"][0]["value"], "label positive");
}

// `cox data check` knows no classes: it counts labels as the records have them.
TEST_F(ScoreRecordsTest, CheckCountsLabels) {
  Use("", R"({"text": "x", "label": "a"}
{"text": "y", "label": "a"}
{"text": "y", "label": 3}
{"text": "z"})");
  job_.datasets[0].format = config::DatasetFormat::kClassification;
  const auto checked = CheckSource(job_, job_.datasets[0]);
  ASSERT_TRUE(checked.ok()) << checked.status();
  const std::string report = SourceReportText(*checked, 10);
  EXPECT_TRUE(Says(report, "format classification, 4 records")) << report;
  EXPECT_TRUE(Says(report, "labels: 3 (1), a (2)\n")) << report;
  EXPECT_TRUE(Says(report, "\"field \"label\" is missing")) << report;
  EXPECT_FALSE(Says(report, "again")) << "another label is another record";
  EXPECT_EQ(SourceReportJson(*checked)["labels"]["a"], 2);
  EXPECT_EQ(InspectDataset(job_, job_.datasets[0])->bad_records, 1);
}

}  // namespace
}  // namespace coxswain::data
