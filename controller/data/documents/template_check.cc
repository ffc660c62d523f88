#include "controller/data/documents/template_check.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/documents/record_renderer.h"
#include "controller/data/escape_token.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/sources/dataset_reader.h"

namespace coxswain::data {
namespace {

constexpr int kComparedRecords = 100;
constexpr size_t kShownBytes = 60;

struct Compared {
  int records = 0;
  int departing = 0;
  std::string first;  // where they part for the first time
};

// From a little before the byte where the two part.
std::string Shown(const std::string& text, size_t parting) {
  const size_t begin = parting < kShownBytes / 2 ? 0 : parting - kShownBytes / 2;
  return EscapeToken(CleanText(text.substr(begin, kShownBytes)));
}

std::string Parting(const std::string& ours, const std::string& own) {
  const auto place = std::mismatch(ours.begin(), ours.end(), own.begin(), own.end()).first;
  const auto at = static_cast<size_t>(place - ours.begin());
  return absl::StrCat("\"", Shown(ours, at), "\" where the model's own has \"", Shown(own, at),
                      "\"");
}

void CompareRecord(const ChatRecord& record, const ConversationTemplate& ours,
                   const ConversationTemplate& own, Compared* compared) {
  const auto text = ours.Render(record.messages, record, /*prompt=*/false);
  if (!text.ok()) return;  // a bad record, which is told of in its place
  ++compared->records;
  const auto other = own.Render(record.messages, record, /*prompt=*/false);
  if (other.ok() && other->text == text->text) return;
  if (++compared->departing > 1) return;
  compared->first = other.ok() ? Parting(text->text, other->text)
                               : CleanText(std::string(other.status().message()));
}

absl::StatusOr<Compared> CompareFirstRecords(const config::DatasetSpec& dataset,
                                             const ConversationTemplate& ours,
                                             const ConversationTemplate& own) {
  ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(dataset));
  RecordParser parser(dataset);
  RawRecord raw;
  Compared compared;
  for (int scanned = 0; scanned < kComparedRecords; ++scanned) {
    absl::StatusOr<bool> more = reader->Next(&raw);
    if (!more.ok() || !*more) break;  // the error is reported, in its place, by the reading proper
    const absl::StatusOr<Record> record = parser.Parse(raw.json);
    if (record.ok()) CompareRecord(ConversationOf(*record), ours, own, &compared);
  }
  return compared;
}

// Records of the first hundred whose tools leave no trace in the text.
absl::StatusOr<int> RecordsWithoutTheirTools(const config::DatasetSpec& dataset,
                                             const ConversationTemplate& ours) {
  ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(dataset));
  RecordParser parser(dataset);
  RawRecord raw;
  int without = 0;
  for (int scanned = 0; scanned < kComparedRecords; ++scanned) {
    absl::StatusOr<bool> more = reader->Next(&raw);
    if (!more.ok() || !*more) break;
    const absl::StatusOr<Record> record = parser.Parse(raw.json);
    if (!record.ok()) continue;
    const ChatRecord with = ConversationOf(*record);
    if (with.tools.is(jinja::Kind::kNone)) continue;
    ChatRecord bare = with;
    bare.tools = jinja::Value::None();
    const auto text = ours.Render(with.messages, with, /*prompt=*/false);
    const auto other = ours.Render(bare.messages, bare, /*prompt=*/false);
    without += text.ok() && other.ok() && text->text == other->text;
  }
  return without;
}

absl::Status WarnOfTools(const config::JobSpec& job, const ConversationTemplate& ours,
                         std::vector<std::string>* warnings) {
  for (const config::DatasetSpec& dataset : job.datasets) {
    if (!UsesChatTemplate(dataset)) continue;
    ASSIGN_OR_RETURN(const int without, RecordsWithoutTheirTools(dataset, ours));
    if (without == 0) continue;
    warnings->push_back(absl::StrCat(
        dataset.path, ": ", ours.name(), " does not write the tools of ", without, " of the first ",
        kComparedRecords, " records: the model is not told of them; name a ",
        "template that knows tools"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckTemplates(const config::JobSpec& job,
                                                        const Tokenizer& tokenizer) {
  std::vector<std::string> warnings;
  const TemplateTokens tokens = TokensOf(tokenizer, job.model_path);
  const bool any = std::any_of(job.datasets.begin(), job.datasets.end(), UsesChatTemplate);
  if (!any) return warnings;
  ASSIGN_OR_RETURN(const ConversationTemplate ours, ConversationTemplate::Create(job, tokens));
  RETURN_IF_ERROR(WarnOfTools(job, ours, &warnings));
  if (tokens.own_template.empty()) return warnings;
  const absl::StatusOr<ConversationTemplate> own = ConversationTemplate::OwnOf(tokens);
  if (!own.ok()) {
    warnings.push_back(absl::StrCat("the model's own template cannot be read, so nothing was ",
                                    "compared with it: ", own.status().message()));
    return warnings;
  }
  if (own->source() == ours.source()) return warnings;
  for (const config::DatasetSpec& dataset : job.datasets) {
    if (!UsesChatTemplate(dataset)) continue;
    ASSIGN_OR_RETURN(const Compared compared, CompareFirstRecords(dataset, ours, *own));
    if (compared.departing == 0) continue;
    warnings.push_back(absl::StrCat(
        dataset.path, ": ", ours.name(), " renders ", compared.departing, " of the first ",
        compared.records, " records differently from the model's own template: ", compared.first,
        "; chat_template: tokenizer_default is what the model was trained with"));
  }
  return warnings;
}

}  // namespace coxswain::data
