// Where the export is sent.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_PUSH_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_PUSH_H_

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// Writes export.push_to_hub from hub_model_id, hub_private_repo and hub_revision. `asked`: the
// tool pushes wherever a hub_model_id is given, and not only with push_to_hub.
void TranslatePush(Translation* t, bool asked);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_PUSH_H_
