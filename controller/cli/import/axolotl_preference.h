// What Axolotl says of preferences: its rl.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_AXOLOTL_PREFERENCE_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_AXOLOTL_PREFERENCE_H_

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// Writes spec.method and spec.preference where the file has rl, and refuses what is trained by
// rewards. Nothing is written of a file without them.
void TranslateAxolotlPreference(Translation* t);

// Writes the format of a source of preferences from its type. Where rewards stop the import, types
// are not judged.
void TranslatePreferenceType(Translation* t, Scope* scope);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_AXOLOTL_PREFERENCE_H_
