// Where the export is sent.
#ifndef COXSWAIN_CONTROLLER_JOB_IMPORT_PUSH_H_
#define COXSWAIN_CONTROLLER_JOB_IMPORT_PUSH_H_

#include "controller/job_import/translation.h"

namespace coxswain::job_import {

// Writes export.push_to_hub from hub_model_id, hub_private_repo and hub_revision. `asked`: the
// tool pushes wherever a hub_model_id is given, and not only with push_to_hub.
void TranslatePush(Translation* t, bool asked);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_JOB_IMPORT_PUSH_H_
