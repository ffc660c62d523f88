// What Axolotl's file writes over a model's config.json.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_CONFIG_OVERRIDES_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_CONFIG_OVERRIDES_H_

#include <string>

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// Writes moe.aux_loss from `model_config` and `overrides_of_model_config`, after the base model.
// Refuses every other key of config.json by its name. `base_dir` is that of relative paths.
void TranslateConfigOverrides(Translation* t, const std::string& base_dir);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_CONFIG_OVERRIDES_H_
