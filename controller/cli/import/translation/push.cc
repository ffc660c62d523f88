#include "controller/cli/import/translation/push.h"

#include <string>

#include "controller/cli/import/translation/hub_name.h"

namespace coxswain::job_import {

using config::Node;

void TranslatePush(Translation* t, bool asked) {
  const std::string path = "spec.export.push_to_hub.";
  const std::string repo = TextOf(t->Take("hub_model_id"));
  const Node* push = t->Take("push_to_hub");
  const bool pushes = push == nullptr ? asked : IsOn(push);
  const Node* is_private = t->Take("hub_private_repo");
  const std::string revision = TextOf(t->Take("hub_revision"));
  if (!pushes || repo.empty()) {
    if (push != nullptr && pushes) {
      t->Differ("push_to_hub", "say the repository with its owner: export.push_to_hub.repo");
    } else if (push != nullptr) {
      t->LeaveOut("push_to_hub", "off");
    }
    for (const char* key : {"hub_model_id", "hub_private_repo", "hub_revision"}) {
      if (t->Has(key)) t->LeaveOut(key, "nothing is sent");
    }
    return;
  }
  if (push != nullptr) t->LeaveOut("push_to_hub", "export.push_to_hub.repo says it");
  if (IsPlaceholder(repo)) {
    t->Differ("hub_model_id", "a placeholder: nothing is sent; name your repository");
    return;
  }
  t->Set("hub_model_id", path + "repo", repo);
  if (is_private != nullptr) t->Set("hub_private_repo", path + "private", IsOn(is_private));
  if (!revision.empty()) t->Set("hub_revision", path + "revision", revision);
}

}  // namespace coxswain::job_import
