#include "controller/data/documents/field_parts.h"

#include <string>

#include <gtest/gtest.h>

#include "controller/data/documents/document_encoder.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

class FieldPartsTest : public testing::Test {
 protected:
  // "field=text|" of each part, line feeds as $, the template's own without a name; then the fields
  // that are not written.
  std::string Parts(config::DatasetFormat format, const std::string& json,
                    const std::string& chat_template = "") {
    ByteTokenizerSpec spec;
    spec.chat_template = chat_template;
    const auto tokenizer = MakeByteTokenizer(scratch_.path(), spec);
    config::DatasetSpec dataset = config::DefaultDataset();
    dataset.format = format;
    const auto renderer = MakeRecordRenderer(job_, dataset, TokensOf(*tokenizer, scratch_.path()));
    EXPECT_TRUE(renderer.ok()) << renderer.status();
    RecordParser parser(format, dataset.fields);
    const RecordParts parts = PartsOfRecord(json, &parser, *renderer);
    std::string shown;
    for (const auto& text : parts.texts) {
      for (const FieldPart& part : text) shown += part.field + "=" + part.text + "|";
    }
    for (const std::string& field : parts.unwritten) shown += "-" + field;
    for (char& c : shown) c = c == '\n' ? '$' : c;
    return shown;
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
};

TEST_F(FieldPartsTest, TextsAreOfTheirFieldsAndTheRestIsTheTemplates) {
  EXPECT_EQ(Parts(config::DatasetFormat::kChat,
                  R"({"messages": [{"role": "user", "content": " user\n"},
                                   {"role": "assistant", "content": "user"}]})"),
            "=<|im_start|>user$|messages[0].content= user$|=<|im_end|>$<|im_start|>assistant$|"
            "messages[1].content=user|=<|im_end|>$|");
  EXPECT_EQ(
      Parts(config::DatasetFormat::kPromptCompletion, R"({"prompt": "a", "completion": "aa"})"),
      "prompt=a|completion=aa|=<|endoftext|>|");
}

TEST_F(FieldPartsTest, WhatTheTemplateLeavesOutOrMovesIsTold) {
  const std::string moves =
      "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}{{ m.note }};{% endfor %}";
  EXPECT_EQ(Parts(config::DatasetFormat::kChat,
                  R"({"messages": [{"role": "user", "content": "q "},
                     {"role": "assistant", "note": "n", "content": "a", "thinking": "hm"}]})",
                  moves),
            "=user: |messages[0].content=q|=;assistant: |messages[1].content=a|"
            "messages[1].note=n|=;|-messages[1].thinking");
}

TEST_F(FieldPartsTest, BadRecordsHaveNone) {
  EXPECT_EQ(Parts(config::DatasetFormat::kChat, "nonsense"), "");
  EXPECT_EQ(Parts(config::DatasetFormat::kCompletion, R"({"other": "a"})"), "");
}

}  // namespace
}  // namespace coxswain::data
