// What the three tools do alike where they train on preferences.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_PREFERENCE_METHOD_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_PREFERENCE_METHOD_H_

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// Whether the job trains on preferences, or will do so. After its method is written.
bool TrainsPreferences(const Translation& t);

// Their trainers of preferences switch all dropout off (disable_dropout), that of adapters too.
// After the adapter is written.
void SwitchDropoutOff(Translation* t);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_PREFERENCE_METHOD_H_
