// Counts the parts of a source's records that are ignored or changed, with their first places.
#ifndef COXSWAIN_CONTROLLER_DATA_FINDINGS_H_
#define COXSWAIN_CONTROLLER_DATA_FINDINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "controller/text/records/record.h"

namespace coxswain::data {

struct RecordPlace {
  int64_t file = 0;  // index of the file among the source's files
  int64_t line = 0;  // as RawRecord::line
  bool operator==(const RecordPlace&) const = default;
};

struct Finding {
  static constexpr size_t kMaxPlaces = 100;

  int64_t records = 0;
  int64_t times = 0;               // a record may hold it more than once
  std::vector<RecordPlace> first;  // at most kMaxPlaces of the records
  bool operator==(const Finding&) const = default;
};

// Findings by kind of note and name. Memory does not grow with the records: after kMaxNames names
// of a kind all others share one finding, "...".
class Findings {
 public:
  using Key = std::pair<NoteKind, std::string>;
  static constexpr size_t kMaxNames = 100;

  // Adds the notes of the record at `place`.
  void Add(const RecordNotes& notes, RecordPlace place);
  // Adds records without places.
  void Add(NoteKind kind, const std::string& name, int64_t records);

  // Restores a finding from an earlier count.
  void Restore(Key key, Finding finding) { all_[std::move(key)] = std::move(finding); }

  const std::map<Key, Finding>& all() const { return all_; }
  bool operator==(const Findings&) const = default;

 private:
  Finding& At(NoteKind kind, const std::string& name);

  std::map<Key, Finding> all_;
};

// "a.jsonl:1, 2, 5 and 7 more": the places of that kind. Empty: there are none. `files`: the files
// of the source.
std::string PlacesOf(const Findings& findings, NoteKind kind, const std::vector<std::string>& files,
                     size_t most_places);

// A sentence for each kind that the user must hear of; `source` is the path of the dataset.
std::vector<std::string> FindingWarnings(const std::string& source, const Findings& findings);

// The notes of one record: `field that is not read "id"; special token taken as text "<|eot|>" (2
// times)`.
std::string NotesText(const RecordNotes& notes);

// Every finding with at most `most_places` of its places: "unread field \"id\": 3 records:
// a.jsonl:1, 2, 5". `files`: the files of the source.
std::vector<std::string> FindingLines(const Findings& findings,
                                      const std::vector<std::string>& files,
                                      size_t most_places = Finding::kMaxPlaces);
// The same as [{what, name, records, times, places: ["a.jsonl:1"]}].
nlohmann::ordered_json PlacedFindingsJson(const Findings& findings,
                                          const std::vector<std::string>& files);

// [{what, name, records, times, first: [[file, line]]}]
nlohmann::ordered_json FindingsJson(const Findings& findings);
// Throws the exceptions of nlohmann_json for JSON that FindingsJson did not write.
Findings FindingsOf(const nlohmann::json& json);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_FINDINGS_H_
