// A data file: split into records, its format told, each record parsed. The first byte is the
// format that the job names; the rest is the file, plain or compressed.
#include <string>

#include "controller/data/readers/detect_format.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/readers/record_reader.h"
#include "tests/common/config/default_spec.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;

constexpr int kMostRecords = 10'000;

void Parse(DatasetFormat format, const config::RecordFields& fields, const RawRecord& raw) {
  const auto record = RecordParser(format, fields).Parse(raw.json);
  if (!record.ok()) {
    fuzz::Expect(!record.status().message().empty(), "a refusal says why");
    return;
  }
  if (const auto* tokenized = std::get_if<TokenizedRecord>(&*record)) {
    fuzz::Expect(tokenized->ids.size() == tokenized->trained.size(), "each token has its mask");
  }
}

void ReadAll(RecordReader& reader, DatasetFormat wanted) {
  static const config::RecordFields fields = config::DefaultDataset().fields;
  RawRecord raw;
  for (int i = 0; i < kMostRecords; ++i) {
    const auto more = reader.Next(&raw);
    if (!more.ok() || !*more) return;
    fuzz::Expect(raw.error.empty() || raw.json.empty(), "a record that cannot be read has no text");
    fuzz::Expect(reader.consumed_bytes() <= reader.file_bytes(), "no more is read than is there");
    if (raw.json.empty()) continue;
    const auto detected = DetectFormat(raw.json, fields);
    if (detected.ok()) Parse(*detected, fields, raw);
    if (wanted != DatasetFormat::kAuto) Parse(wanted, fields, raw);
  }
}

}  // namespace
}  // namespace coxswain::data

namespace coxswain {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const support::ScratchFolder folder;
  if (size == 0) return 0;
  const int formats = static_cast<int>(config::DatasetFormat::kClassification) + 1;
  const std::string path = folder.Write("data", fuzz::TextOf(data + 1, size - 1));
  const auto reader = data::RecordReader::Open(path);
  if (reader.ok()) data::ReadAll(**reader, static_cast<config::DatasetFormat>(data[0] % formats));
  return 0;
}

}  // namespace coxswain
