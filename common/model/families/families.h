// The families, one file each.
#ifndef COXSWAIN_COMMON_MODEL_FAMILIES_FAMILIES_H_
#define COXSWAIN_COMMON_MODEL_FAMILIES_FAMILIES_H_

#include "common/model/family.h"

namespace coxswain::model {

extern const Family kGemma, kGranite, kLlama, kMistral, kQwen2, kQwen3, kSmolLm3;

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FAMILIES_FAMILIES_H_
