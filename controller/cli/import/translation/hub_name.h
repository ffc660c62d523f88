// What of theirs is a name on the Hugging Face Hub, and where the export is sent.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_HUB_NAME_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_HUB_NAME_H_

#include <string>

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// What of theirs is a name on the Hugging Face Hub, and the form of what is not.

// "Qwen/Qwen3-8B", and names without a slash; not paths, files of data, URLs, and nothing that
// lies below `base_dir`.
bool IsHubName(const std::string& text, const std::string& base_dir);

// "<your-dataset>": what an example leaves to its reader.
bool IsPlaceholder(const std::string& text);

// A relative path in a form that never reads as a Hub name: "out/a" gives "./out/a".
std::string LocalForm(const std::string& text);

// Where the export is sent.

// Writes export.push_to_hub from hub_model_id, hub_private_repo and hub_revision. `asked`: the
// tool pushes wherever a hub_model_id is given, and not only with push_to_hub.
void TranslatePush(Translation* t, bool asked);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_HUB_NAME_H_
