#include "controller/data/findings.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/outside_text.h"

namespace coxswain::data {
namespace {

constexpr size_t kShownNames = 8;

struct Kind {
  NoteKind kind;
  const char* word;  // in JSON
  const char* text;  // for people, before the name
};

constexpr Kind kKinds[] = {
    {NoteKind::kUnreadField, "unread_field", "field that is not read"},
    {NoteKind::kUnreadKey, "unread_key", "key of a message that the chat template does not read"},
    {NoteKind::kUnknownRole, "unknown_role", "unknown role"},
    {NoteKind::kNullProperty, "null_property", "null properties in"},
    {NoteKind::kSpecialAsText, "special_as_text", "special token taken as text"},
    {NoteKind::kTruncated, "truncated", "truncated to sequence_len"},
    {NoteKind::kAnswerCut, "answer_cut", "answer cut off by sequence_len"},
    {NoteKind::kTooLong, "too_long", "dropped: above sequence_len"},
    {NoteKind::kNoTarget, "no_target", "dropped: no trainable token"},
    {NoteKind::kBadRecord, "bad_record", "bad record"},
    {NoteKind::kRewritten, "rewritten", "turns not trained, as the chat template rewrites them"},
    {NoteKind::kUnended, "unended", "trained turns without an end-of-turn token"},
    {NoteKind::kWithoutCalls, "without_calls", "turns trained without their tool calls"},
    {NoteKind::kWithoutThought, "without_thought", "turns trained without their reasoning"},
    {NoteKind::kEmptyAnswer, "empty_answer", "empty answer"},
    {NoteKind::kSplit, "split", "cut into pieces of sequence_len"},
    {NoteKind::kEqualSides, "equal_sides", "dropped: chosen equals rejected"},
    {NoteKind::kEqualOnceCut, "equal_once_cut",
     "dropped: chosen equals rejected once both are cut to sequence_len"},
    {NoteKind::kScoresDisagree, "scores_disagree", "scores prefer the rejected side"},
    {NoteKind::kDuplicate, "duplicate", "trains the same tokens as an earlier record"},
};

const Kind& RowOf(NoteKind kind) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds),
                       [&](const Kind& row) { return row.kind == kind; });
}

std::string Records(int64_t count) {
  return absl::StrCat(count, count == 1 ? " record" : " records");
}

// `"id" (3 records), "source" (1 record)`; empty: nothing of that kind.
std::string NamesOf(const Findings& findings, NoteKind kind) {
  std::vector<std::string> names;
  size_t more = 0;
  for (const auto& [key, finding] : findings.all()) {
    if (key.first != kind) continue;
    if (names.size() == kShownNames) {
      ++more;
      continue;
    }
    names.push_back(
        absl::StrCat("\"", CleanText(key.second), "\" (", Records(finding.records), ")"));
  }
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more == 0 ? "" : absl::StrCat(", ", more, " more"));
}

std::string PlacesText(const Finding& finding, const std::vector<std::string>& files, size_t most) {
  std::string text;
  int64_t file = -1;
  const size_t shown = std::min(finding.first.size(), most);
  for (const RecordPlace& place : std::span(finding.first).first(shown)) {
    absl::StrAppend(&text, text.empty() ? ": " : ", ");
    if (place.file != file && place.file < static_cast<int64_t>(files.size())) {
      absl::StrAppend(&text, files[static_cast<size_t>(place.file)], ":");
    }
    file = place.file;
    absl::StrAppend(&text, place.line);
  }
  const int64_t more = finding.records - static_cast<int64_t>(shown);
  if (shown > 0 && more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

}  // namespace

Finding& Findings::At(NoteKind kind, const std::string& name) {
  const auto found = all_.find({kind, name});
  if (found != all_.end()) return found->second;
  const auto names = std::count_if(all_.begin(), all_.end(),
                                   [&](const auto& entry) { return entry.first.first == kind; });
  return all_[{kind, static_cast<size_t>(names) < kMaxNames ? name : "..."}];
}

void Findings::Add(const RecordNotes& notes, RecordPlace place) {
  std::set<const Finding*> seen;  // a record may have any number of fields
  for (const RecordNote& note : notes) {
    Finding& finding = At(note.kind, note.name);
    ++finding.times;
    if (!seen.insert(&finding).second) continue;
    ++finding.records;
    if (finding.first.size() < Finding::kMaxPlaces) finding.first.push_back(place);
  }
}

void Findings::Add(NoteKind kind, const std::string& name, int64_t records) {
  Finding& finding = At(kind, name);
  finding.records += records;
  finding.times += records;
}

std::string PlacesOf(const Findings& findings, NoteKind kind, const std::vector<std::string>& files,
                     size_t most_places) {
  const auto found = findings.all().find({kind, ""});
  if (found == findings.all().end()) return "";
  const std::string text = PlacesText(found->second, files, most_places);
  return text.empty() ? text : text.substr(2);  // without ": "
}

std::vector<std::string> FindingWarnings(const std::string& source, const Findings& findings) {
  std::vector<std::string> warnings;
  const auto warn = [&](NoteKind kind, const char* before, const char* behind) {
    const std::string names = NamesOf(findings, kind);
    if (!names.empty()) warnings.push_back(absl::StrCat(source, ": ", before, names, behind));
  };
  warn(NoteKind::kUnreadField, "fields that are not read: ", "");
  warn(NoteKind::kUnreadKey, "keys of messages that the chat template does not read: ", "");
  warn(NoteKind::kUnknownRole, "roles that are not known: ",
       "; nothing of them is trained. Say what they mean, e.g. roles: {assistant: NAME}, or train "
       "them by roles_to_train");
  warn(NoteKind::kNullProperty, "null properties stand in ",
       " and are rendered as null; if they come from a table in which all rows have the same keys, "
       "leave them out, or keep the field as JSON text");
  warn(NoteKind::kSpecialAsText, "special tokens in the text of records are taken as text: ",
       "; special_tokens: content makes them tokens");
  const auto cut = findings.all().find({NoteKind::kAnswerCut, ""});
  if (cut != findings.all().end()) {
    warnings.push_back(absl::StrCat(
        source, ": sequence_len cuts off targets of ", Records(cut->second.records),
        ", which then teach no end of an answer; excess_length: drop leaves them out"));
  }
  const auto disagree = findings.all().find({NoteKind::kScoresDisagree, ""});
  if (disagree != findings.all().end()) {
    warnings.push_back(absl::StrCat(source, ": the scores of ", Records(disagree->second.records),
                                    " prefer the rejected side; the names of the sides decide"));
  }
  const auto empty = findings.all().find({NoteKind::kEmptyAnswer, ""});
  if (empty != findings.all().end()) {
    warnings.push_back(absl::StrCat(source, ": empty answers: ", Records(empty->second.records),
                                    ", of which the end token alone is trained"));
  }
  return warnings;
}

std::string NotesText(const RecordNotes& notes) {
  Findings findings;
  findings.Add(notes, {});
  std::vector<std::string> texts;
  for (const auto& [key, finding] : findings.all()) {
    texts.push_back(
        absl::StrCat(RowOf(key.first).text,
                     key.second.empty() ? "" : absl::StrCat(" \"", CleanText(key.second), "\""),
                     finding.times > 1 ? absl::StrCat(" (", finding.times, " times)") : ""));
  }
  return absl::StrJoin(texts, "; ");
}

std::vector<std::string> FindingLines(const Findings& findings,
                                      const std::vector<std::string>& files, size_t most_places) {
  std::vector<std::string> lines;
  for (const auto& [key, finding] : findings.all()) {
    const std::string name =
        key.second.empty() ? "" : absl::StrCat(" \"", OneLine(key.second), "\"");
    lines.push_back(absl::StrCat(
        RowOf(key.first).text, name, ": ", Records(finding.records),
        finding.times > finding.records ? absl::StrCat(", ", finding.times, " times") : "",
        OneLine(PlacesText(finding, files, most_places))));
  }
  return lines;
}

nlohmann::ordered_json PlacedFindingsJson(const Findings& findings,
                                          const std::vector<std::string>& files) {
  nlohmann::ordered_json list = FindingsJson(findings);
  for (nlohmann::ordered_json& item : list) {
    nlohmann::ordered_json places = nlohmann::ordered_json::array();
    for (const nlohmann::ordered_json& place : item["first"]) {
      const size_t file = place[0];
      const std::string of_file = file < files.size() ? files[file] + ":" : "";
      places.push_back(absl::StrCat(of_file, place[1].get<int64_t>()));
    }
    item.erase("first");
    item["places"] = std::move(places);
  }
  return list;
}

nlohmann::ordered_json FindingsJson(const Findings& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [key, finding] : findings.all()) {
    nlohmann::ordered_json places = nlohmann::ordered_json::array();
    for (const RecordPlace& place : finding.first) places.push_back({place.file, place.line});
    list.push_back({{"what", RowOf(key.first).word},
                    {"name", key.second},
                    {"records", finding.records},
                    {"times", finding.times},
                    {"first", std::move(places)}});
  }
  return list;
}

Findings FindingsOf(const nlohmann::json& json) {
  Findings findings;
  for (const nlohmann::json& item : json) {
    const std::string word = item.at("what");
    const auto row = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& kind) { return word == kind.word; });
    if (row == std::end(kKinds)) continue;
    Finding finding{.records = item.at("records"), .times = item.at("times"), .first = {}};
    for (const nlohmann::json& place : item.at("first")) {
      finding.first.push_back({.file = place.at(0), .line = place.at(1)});
    }
    findings.Restore({row->kind, item.at("name")}, std::move(finding));
  }
  return findings;
}

}  // namespace coxswain::data
