// Another trainer's configuration -> a job, and a report of every key.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_JOB_IMPORT_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_JOB_IMPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/foreign_keys/foreign_key.h"
#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

struct ImportRequest {
  std::string text;         // of the configuration: YAML, or a command line of TRL
  std::string name;         // as far as its letters allow: metadata.name, the end of output_dir
  std::string base_dir;     // absolute; where the configuration lies
  std::string dataset_dir;  // of LLaMA-Factory's dataset_info.json; empty: where the file says
  std::optional<foreign_keys::Tool> tool;  // absent: told by the keys
};

struct Imported {
  foreign_keys::Tool tool = foreign_keys::Tool::kAxolotl;
  std::string yaml;                     // of the job, whether or not something stands in the way
  std::vector<ReportLine> report;       // every key of the file, then what the tool does by itself
  std::vector<std::string> in_the_way;  // "load_in_4bit (adapter: qlora is not supported yet)"
};

// Whether the text is a configuration of one of the tools: a command line of TRL, or a map
// without a job's apiVersion, kind and spec whose keys tell the tool.
bool IsForeign(const std::string& text);

// An import with nothing in its way has a `yaml` that the job schema takes as valid.
// InvalidArgument: the text is no configuration, or its keys tell no tool or several.
absl::StatusOr<Imported> ImportJob(const ImportRequest& request);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_JOB_IMPORT_H_
