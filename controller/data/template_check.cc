#include "controller/data/template_check.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/status_macros.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/readers/record_reader.h"
#include "controller/data/templates/record_renderer.h"

namespace coxswain::data {
namespace {

constexpr int kComparedRecords = 100;

// How a model's own template departs from the named format of its family.
enum class Departure { kNone, kDefaultSystem, kThinkBlock, kDateHeader };

struct KnownTemplate {
  std::string_view sha256;  // of the text in normal form
  const char* owner;
  std::string_view family;
  Departure departure;
};

constexpr std::array kKnownTemplates = {
    KnownTemplate{"5a113d44c08716a1e2009f76fda3e8351f858f8b83cbd9b11605351fea28fd4b",
                  "plain ChatML", "chatml", Departure::kNone},
    KnownTemplate{"97e73f25ec825b5d8684c9b6c5c342c934604a714a3ebd29baa5cb868fc661e6", "Qwen2.5",
                  "chatml", Departure::kDefaultSystem},
    KnownTemplate{"7cc826c3c215ed5f456add15ac0061558f56f30ff4cf05af7a7834f1d887e41e", "Qwen3",
                  "chatml", Departure::kThinkBlock},
    KnownTemplate{"64a4f40a36a3c46783f77bd987e4f2dc090db70992f9c4aab7b79bfa205a2901", "Llama 3.1",
                  "llama3", Departure::kDateHeader},
    KnownTemplate{"eb400f43cbb5d92b275d55b07289c3e814a141ac8b5d3c2b1465d89549e78bb7", "Llama 3.2",
                  "llama3", Departure::kDateHeader},
};

// Spelling that does not change what a template renders: spaces, kind of quotes, a written-out line
// feed.
std::string NormalForm(std::string_view text) {
  std::string normal;
  for (char c : text) {
    if (c == ' ') continue;
    if (c == '\n') {
      normal += "\\n";
    } else {
      normal += c == '"' ? '\'' : c;
    }
  }
  return normal;
}

const KnownTemplate* Recognise(const std::string& text) {
  const std::string sha256 = ToHex(Sha256(NormalForm(text)));
  for (const KnownTemplate& known : kKnownTemplates) {
    if (known.sha256 == sha256) return &known;
  }
  return nullptr;
}

bool Departs(Departure departure, const std::vector<Message>& messages) {
  if (messages.empty()) return false;
  switch (departure) {
    case Departure::kNone:
      return false;
    case Departure::kDefaultSystem:
      return messages[0].role != Role::kSystem;
    case Departure::kThinkBlock:
      break;
    case Departure::kDateHeader:
      return true;
  }
  if (messages.back().role == Role::kAssistant) return true;
  for (const Message& message : messages) {
    if (message.content.find("</think>") != std::string::npos) return true;
  }
  return false;
}

const char* Explain(Departure departure) {
  switch (departure) {
    case Departure::kNone:
      return "";
    case Departure::kDefaultSystem:
      return "inserts a default system turn when a record has none";
    case Departure::kThinkBlock:
      return "writes a <think> block before the last answer";
    case Departure::kDateHeader:
      break;
  }
  return "opens every conversation with a system turn that holds dates";
}

struct Compared {
  int records = 0;
  int departing = 0;
};

absl::StatusOr<Compared> CompareFirstRecords(const config::DatasetSpec& dataset,
                                             Departure departure) {
  ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(dataset.path));
  RecordParser parser(dataset.format);
  RawRecord raw;
  Compared compared;
  for (int scanned = 0; scanned < kComparedRecords; ++scanned) {
    absl::StatusOr<bool> more = reader->Next(&raw);
    if (!more.ok() || !*more) break;  // the error is reported, in its place, by the reading proper
    const absl::StatusOr<Record> record = parser.Parse(raw.json);
    if (!record.ok()) continue;
    ++compared.records;
    compared.departing += Departs(departure, ConversationOf(*record));
  }
  return compared;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckTemplates(const config::JobSpec& job,
                                                        const Tokenizer& tokenizer) {
  std::vector<std::string> warnings;
  for (const config::DatasetSpec& dataset : job.datasets) {
    if (!UsesChatTemplate(dataset) || tokenizer.chat_template().empty()) continue;
    const std::string subject = absl::StrCat(dataset.path, ": chat_template ", job.chat_template);
    const KnownTemplate* own = Recognise(tokenizer.chat_template());
    if (own == nullptr) {
      warnings.push_back(absl::StrCat(subject, " was not compared with the model's own template, ",
                                      "which is none of those known here"));
    } else if (own->family != job.chat_template) {
      warnings.push_back(absl::StrCat(subject, " differs from the model's own template (",
                                      own->owner, ", of the family ", std::string(own->family),
                                      ")"));
    } else {
      ASSIGN_OR_RETURN(const Compared compared, CompareFirstRecords(dataset, own->departure));
      if (compared.departing == 0) continue;
      warnings.push_back(absl::StrCat(subject, ": the model's own template (", own->owner, ") ",
                                      Explain(own->departure), "; it renders ", compared.departing,
                                      " of the first ", compared.records, " records differently"));
    }
  }
  return warnings;
}

}  // namespace coxswain::data
