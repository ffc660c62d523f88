// The command line of TRL's scripts sft, dpo, kto, cpo and orpo as a map of keys.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_COMMAND_LINE_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_COMMAND_LINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/yaml_tree.h"

namespace coxswain::job_import {

// The key under which a script other than sft stands in the map.
inline constexpr char kScriptKey[] = "trl script";

// A text that is no YAML map and names such a script, as in "trl sft" or by its file sft.py, or
// begins with an option.
bool IsCommandLine(const std::string& text);

// Each option with its line; several values are a list, none is true, `--no_x` is x: false. The
// file that --config names is read from `base_dir`, and the command's options win over its keys.
// Of the launcher's options the number of processes is kept. InvalidArgument: an open quote, or
// text without options; NotFound: the file of --config.
absl::StatusOr<config::Node> ParseCommandLine(const std::string& text, const std::string& base_dir);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_COMMAND_LINE_H_
