// The tools whose configurations are read: which one a file is written for, and one function for
// each.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_DETECT_TOOL_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_DETECT_TOOL_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/yaml_tree.h"
#include "common/foreign_keys/foreign_key.h"
#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// Which tool a configuration is written for.

// By the keys that one tool alone has. InvalidArgument where there are none or those of two; the
// message names keys that tell.
absl::StatusOr<foreign_keys::Tool> DetectTool(const config::Node& root);

// One function a tool: reads what needs judgement of a configuration; the table does the rest.

// `base_dir`: where the configuration lies; decides what is a local path.
void TranslateAxolotl(Translation* t, const std::string& base_dir);
void TranslateAxolotlData(Translation* t, const std::string& base_dir);

// `dataset_dir`: where dataset_info.json lies; empty: as the configuration says, else beside it.
void TranslateLlamaFactory(Translation* t, const std::string& base_dir,
                           const std::string& dataset_dir);
void TranslateLlamaFactoryData(Translation* t, const std::string& base_dir,
                               const std::string& dataset_dir);
// The losses of stages dpo and kto; after method and adapter are written.
void TranslateLlamaFactoryPreference(Translation* t);

// A file of its second engine, which has keys of its own: train_dataset, peft_config.
void TranslateLlamaFactoryV1(Translation* t, const std::string& base_dir,
                             const std::string& dataset_dir);

// Which script it is of, and the losses of dpo, kto, cpo and orpo.
void TranslateTrlPreference(Translation* t);
void TranslateTrl(Translation* t, const std::string& base_dir);
void TranslateTrlData(Translation* t, const std::string& base_dir);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_DETECT_TOOL_H_
