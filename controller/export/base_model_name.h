// How exports call the model that was trained on.
#ifndef COXSWAIN_CONTROLLER_EXPORT_BASE_MODEL_NAME_H_
#define COXSWAIN_CONTROLLER_EXPORT_BASE_MODEL_NAME_H_

#include <string>

#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// "Qwen/Qwen2.5-0.5B": one owner, one slash, one name, of the letters that the Hub allows.
bool IsHubId(const std::string& text);

// How adapter_config.json calls it: BaseModelName, but in place of the directory's name its
// absolute path, unless export.base_path is false. Source: peft save_pretrained.
std::string AdapterBase(const config::JobSpec& job, const plan::Plan& plan);

// For other machines, never a path: base_model.name; else base_model.hub; else the Hub id that
// _name_or_path of the base's config.json is; else that of the Hub's cache
// (.../models--Qwen--Qwen2.5-0.5B/snapshots/...); else the name of the directory.
std::string BaseModelName(const config::JobSpec& job, const plan::Plan& plan);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_BASE_MODEL_NAME_H_
