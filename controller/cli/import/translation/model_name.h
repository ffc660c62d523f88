// What the name of a model says of it where there is no config.json to read.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_MODEL_NAME_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_MODEL_NAME_H_

#include <optional>
#include <string>
#include <string_view>

namespace coxswain::job_import {

// A clause that says why the model is not trained yet ("the family Gemma is not supported yet");
// empty where the name says nothing against it.
std::string_view RefusalOfModel(const std::string& name);

// Whether the family that the name tells has no linear of this name ("gate_proj"), as other
// families have it.
bool LacksModule(const std::string& name, std::string_view module);

// The factor of the balancing loss that the model's config.json holds and does not ask for.
std::optional<double> RouterLossOfModel(const std::string& name);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_MODEL_NAME_H_
