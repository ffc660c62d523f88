// Another trainer's configuration as keys and values, with what was already read.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_FOREIGN_CONFIG_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_FOREIGN_CONFIG_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/config/yaml_tree.h"

namespace coxswain::job_import {

class ForeignConfig {
 public:
  // `root` is a map; it must outlive the object. Of duplicate keys the last one counts.
  explicit ForeignConfig(const config::Node& root) : root_(root) {}

  const config::Entry* Find(std::string_view name) const;
  bool Has(std::string_view name) const;  // and not null

  // The value, which counts as read; null when the key is absent or null.
  const config::Node* Take(std::string_view name);

  std::vector<const config::Entry*> Unread() const;  // in the order of the file

 private:
  const config::Node& root_;
  std::set<std::string, std::less<>> read_;
};

// The text of a scalar; "" for anything else and for null pointers.
std::string TextOf(const config::Node* node);
// As PyYAML and argparse take it: true, yes, on, 1.
bool IsOn(const config::Node* node);
// A value that asks for nothing: null, false, 0, "", none, no, off, an empty list or map.
bool IsOff(const config::Node& node);
std::optional<double> NumberOf(const config::Node* node);  // quoted ones too, as 1e-4 is to PyYAML
std::vector<std::string> TextsOf(const config::Node* node);  // of a list, or of one scalar

// Letters, digits and underscores: what may stand in a path of a job.
bool IsPlainName(std::string_view text);

nlohmann::ordered_json ToJson(const config::Node& node);
config::Node ToNode(const nlohmann::ordered_json& value);
// One line of at most 70 characters, for reports.
std::string Shown(const config::Node& node);
std::string Shown(const nlohmann::ordered_json& value);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_FOREIGN_CONFIG_H_
