// What `preference` may say under each method, and what it means where it says nothing.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_PREFERENCE_RULES_H_
#define COXSWAIN_COMMON_CONFIG_RULES_PREFERENCE_RULES_H_

#include <string_view>

#include "common/config/rules/validate.h"

namespace coxswain::config {

// Whether `method` trains on preferences: dpo, orpo, cpo, simpo, kto.
bool IsPreferenceMethod(std::string_view method);

// Adds errors for keys of `preference` that the method does not read, and for losses that it does
// not have.
void CheckPreference(Validated* job);

// Fills in the keys that the method reads and the job leaves out.
void ResolvePreference(nlohmann::ordered_json* spec);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_PREFERENCE_RULES_H_
