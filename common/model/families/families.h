// The families. Those of one maker share a file, and so do those that stand alone.
#ifndef COXSWAIN_COMMON_MODEL_FAMILIES_FAMILIES_H_
#define COXSWAIN_COMMON_MODEL_FAMILIES_FAMILIES_H_

#include "common/model/family.h"

namespace coxswain::model {

extern const Family kCohere, kCohere2, kDeepseekV3, kGemma, kGemma2, kGemma3, kGemma3Images, kGlm4,
    kGlm4Moe, kGlm4MoeLite, kGptOss, kGranite, kInternLm2, kLlama, kMinistral3, kMistral, kMistral3,
    kMixtral, kOlmo2, kPhi3, kQwen2, kQwen2Moe, kQwen3, kQwen3Moe, kSmolLm3, kStarcoder2;

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FAMILIES_FAMILIES_H_
