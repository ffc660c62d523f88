// One configuration on its way: what is read of theirs, the job as far as it is written, and a line
// of report for each key.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TRANSLATION_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TRANSLATION_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/config/yaml_tree.h"
#include "common/foreign_keys/foreign_key.h"
#include "controller/cli/import/translation/foreign_config.h"

namespace coxswain::job_import {

enum class Outcome {
  kTaken,    // same name, same value
  kRenamed,  // another name, same value
  kChanged,  // another value
  kDefault,  // what the tool does where its file says nothing
  kLeftOut,  // no counterpart, and nothing that is trained changes
  kDiffers,  // no counterpart, and the job trains a little differently
  kRefused,  // stands in the way of the import
};

struct ReportLine {
  Outcome outcome = Outcome::kTaken;
  int line = 0;       // of their file; 0: nowhere in it
  std::string key;    // theirs; empty for defaults
  std::string value;  // theirs, on one line
  std::string ours;   // "spec.lora.r: 32"; empty: nothing
  std::string reason;
};

// A map of theirs: the whole file, or one data set of it.
struct Scope {
  ForeignConfig config;
  std::string shown;   // before a key in reports: "datasets[0]."
  std::string rows;    // before a key in the table: "datasets[]."
  std::string target;  // what "spec.datasets[]." of a row's `ours` stands for
};

class Translation {
 public:
  Translation(foreign_keys::Tool tool, const config::Node& root, std::string job_name)
      : tool_(tool),
        job_name_(std::move(job_name)),
        top_{ForeignConfig(root), "", "", "spec.datasets[0]."} {}

  foreign_keys::Tool tool() const { return tool_; }
  const std::string& job_name() const { return job_name_; }  // metadata.name
  Scope& top() { return top_; }

  // The value of a key at the top, which counts as read; null when it is absent or null.
  const config::Node* Take(std::string_view key) { return top_.config.Take(key); }
  bool Has(std::string_view key) const { return top_.config.Has(key); }
  // The same as Take, but the key does not count as read.
  const config::Node* Peek(std::string_view key) const {
    return Has(key) ? &top_.config.Find(key)->value : nullptr;
  }

  // Writes a value that came from their `key`.
  void Set(const Scope& scope, std::string_view key, const std::string& path,
           const nlohmann::ordered_json& value, std::string_view reason = {});
  void Set(std::string_view key, const std::string& path, const nlohmann::ordered_json& value,
           std::string_view reason = {}) {
    Set(top_, key, path, value, reason);
  }
  // Writes what the tool does by itself, unless the path is written already.
  void Preset(const std::string& path, const nlohmann::ordered_json& value,
              std::string_view reason = {});

  // Reports about a key that is not written. The value of a token is not shown.
  void Note(const Scope& scope, Outcome outcome, std::string_view key, std::string_view reason,
            std::string_view ours = {});
  void LeaveOut(std::string_view key, std::string_view reason) {
    Note(top_, Outcome::kLeftOut, key, reason);
  }
  void Differ(std::string_view key, std::string_view reason) {
    Note(top_, Outcome::kDiffers, key, reason);
  }
  void Refuse(std::string_view key, std::string_view reason, std::string_view ours = {}) {
    Note(top_, Outcome::kRefused, key, reason, ours);
  }

  // Takes the key and writes it under `path` when it is set; true when it was.
  bool Move(std::string_view key, const std::string& path);

  // Everything of the scope that was not read, by its row of the table; at the top the table's
  // defaults too.
  void TranslateRest(Scope* scope);

  const nlohmann::ordered_json* Find(const std::string& path) const;  // null: not written
  const nlohmann::ordered_json& job() const { return job_; }
  const std::vector<ReportLine>& report() const { return report_; }
  // Their key that a path of the job came from; empty: none.
  std::string OriginOf(const std::string& path) const;
  // Paths that were written below this one; the path itself where there are none.
  std::vector<std::string> WrittenBelow(const std::string& path) const;

 private:
  struct Origin {
    std::string key;
    int line = 0;
  };

  void TranslateRow(Scope* scope, const config::Entry& entry);
  nlohmann::ordered_json* Place(const std::string& path);

  foreign_keys::Tool tool_;
  std::string job_name_;
  Scope top_;
  nlohmann::ordered_json job_ = nlohmann::ordered_json::object();
  std::map<std::string, Origin> origins_;
  std::vector<ReportLine> report_;
};

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_TRANSLATION_H_
