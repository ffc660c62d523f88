#include "controller/cli/import/translation/preference_method.h"

#include <string>

namespace coxswain::job_import {

bool TrainsPreferences(const Translation& t) {
  const nlohmann::ordered_json* method = t.Find("spec.method");
  return method != nullptr && *method != "sft" && *method != "pretrain";
}

void SwitchDropoutOff(Translation* t) {
  const std::string path = "spec.lora.dropout";
  const nlohmann::ordered_json* dropout = t->Find(path);
  const bool drops = dropout != nullptr && dropout->is_number() && *dropout != 0;
  if (!TrainsPreferences(*t) || !drops) return;
  const std::string origin = t->OriginOf(path);
  t->Set(origin.empty() ? "disable_dropout" : origin, path, 0.0,
         "disable_dropout is on in trainers of preferences");
}

}  // namespace coxswain::job_import
