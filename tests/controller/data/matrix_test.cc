// 60 real templates x 8 records x 2 tokenizers against transformers: text, targets, ids.
// tests/fixtures/matrix says how they were found there.
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "controller/data/documents/document_encoder.h"
#include "controller/data/readers/record_parser.h"
#include "controller/text/templates/chat_renderer.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/tokenizer_fixture.h"
#include "tests/controller/text/tokenizer/tokenizer_vectors.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::json;
// Tokens of one kind in a row, no targets first: their number, and a digest of their ids.
using Runs = std::vector<std::pair<size_t, uint32_t>>;

constexpr char kGolden[] = "tests/fixtures/matrix/golden.jsonl.gz";
constexpr char kTemplates[] = "tests/fixtures/templates/templates.jsonl.gz";

const std::vector<Json>& Lines() {
  static const auto* lines = new std::vector<Json>(ReadVectors(kGolden));
  return *lines;
}

std::string Bracketed(std::string_view text, const std::vector<std::pair<size_t, size_t>>& ranges) {
  std::string shown;
  size_t at = 0;
  for (const auto& [begin, end] : ranges) {
    shown.append(text.substr(at, begin - at)).append("⟦");
    shown.append(text.substr(begin, end - begin)).append("⟧");
    at = end;
  }
  return shown.append(text.substr(at));
}

Runs RunsOf(const EncodedDocument& document) {
  Runs runs = {{0, 0}};
  for (size_t t = 0; t < document.ids.size(); ++t) {
    const size_t bit = t == 0 ? 0 : t - 1;
    const bool target = t > 0 && (document.target_bits[bit / 8] >> (bit % 8) & 1) != 0;
    if (target != (runs.size() % 2 == 0)) runs.emplace_back(0, 0);
    auto& [count, digest] = runs.back();
    ++count;
    digest = digest * 1000003U + static_cast<uint32_t>(document.ids[t]) + 1U;
  }
  return runs;
}

class MatrixTest : public testing::TestWithParam<std::string> {
 protected:
  // Writes the tokenizer that the matrix has under this name, without a template.
  void WriteTokenizer(const std::string& name) {
    const Json& made = Lines().front()["tokenizers"][name];
    const auto base = ReadMaybeGzip(kTokenizerFixtures + made["file"].get<std::string>());
    ASSERT_TRUE(base.ok()) << base.status();
    Json tokenizer = Json::parse(*base);
    tokenizer.merge_patch(made["patch"]);
    scratch_.Write("tokenizer.json", tokenizer.dump());
    scratch_.Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    job_.model_path = scratch_.path();
    job_.sequence_len = 1 << 20;
    dataset_.format = config::DatasetFormat::kChat;
  }

  // The record's text with its targets between brackets, or why there is none.
  std::string Text(const Tokenizer& tokenizer, const Record& record) const {
    const auto renderer = MakeChatRenderer(job_, TokensOf(tokenizer, job_.model_path));
    if (!renderer.ok()) return renderer.status().ToString();
    const auto documents = (*renderer)(std::get<ChatRecord>(record));
    if (!documents.ok()) return documents.status().ToString();
    const Segment& segment = documents->front().segments.front();
    std::vector<std::pair<size_t, size_t>> ranges;
    for (const ByteRange& range : segment.marks->ranges)
      ranges.emplace_back(range.begin, range.end);
    return Bracketed(segment.text, ranges);
  }

  // One row of the matrix.
  void Check(const Tokenizer& tokenizer, const Record& record, const Json& row) const {
    const auto encoder = DocumentEncoder::Create(job_, dataset_, tokenizer);
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    const auto documents = encoder->Encode(record);
    if (row.contains("refused")) {
      EXPECT_EQ(documents.status().code(), absl::StatusCode::kInvalidArgument)
          << row["refused"] << "\n"
          << Text(tokenizer, record);
      return;
    }
    EXPECT_EQ(Text(tokenizer, record), Bracketed(row["text"].get<std::string>(), row["targets"]));
    ASSERT_TRUE(documents.ok()) << documents.status();
    EXPECT_EQ(RunsOf(documents->front()), row["tokens"][GetParam()].get<Runs>());
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
  config::DatasetSpec dataset_ = config::DefaultDataset();
};

TEST_P(MatrixTest, TextTargetsAndIdsAreThoseOfTransformers) {
  ASSERT_NO_FATAL_FAILURE(WriteTokenizer(GetParam()));
  const auto tokenizer = Tokenizer::Load(scratch_.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  RecordParser parser(dataset_.format, dataset_.fields);
  std::map<std::string, Record> records;
  for (const auto& [name, record] : Lines().front()["records"].items()) {
    auto parsed = parser.Parse(record.get_ref<const std::string&>());
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status();
    records.emplace(name, *std::move(parsed));
  }
  for (const Json& line : ReadVectors(kTemplates)) {
    scratch_.Write(line["name"], line["source"].get<std::string>());
  }
  size_t rows = 0;
  for (const Json& row : Lines()) {
    if (!row.contains("template")) continue;
    const std::string name = row["template"], record = row["record"];
    SCOPED_TRACE(name + ", " + record);
    job_.chat_template = scratch_.path() + "/" + name;
    Check(**tokenizer, records.at(record), row);
    ++rows;
  }
  EXPECT_EQ(rows, 480U);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, MatrixTest, testing::Values("base", "characters"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace coxswain::data
