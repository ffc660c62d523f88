// Which tool a configuration is written for.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_DETECT_TOOL_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_DETECT_TOOL_H_

#include "absl/status/statusor.h"
#include "common/config/yaml_tree.h"
#include "common/foreign_keys/foreign_key.h"

namespace coxswain::job_import {

// By the keys that one tool alone has. InvalidArgument where there are none or those of two; the
// message names keys that tell.
absl::StatusOr<foreign_keys::Tool> DetectTool(const config::Node& root);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_DETECT_TOOL_H_
