// How long is trained and how fast, and what training on preferences changes of that.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_SCHEDULE_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_SCHEDULE_H_

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// What the three tools do alike where they train on preferences.

// Whether the job trains on preferences, or will do so. After its method is written.
bool TrainsPreferences(const Translation& t);

// Their trainers of preferences switch all dropout off (disable_dropout), that of adapters too.
// After the adapter is written.
void SwitchDropoutOff(Translation* t);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_SCHEDULE_H_
