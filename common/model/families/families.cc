#include "common/model/families/families.h"

namespace coxswain::model {

const std::vector<const Family*>& Families() {
  static const auto* const kFamilies = new std::vector<const Family*>{
      &kCohere,     &kCohere2, &kDeepseekV3,  &kGemma,   &kGemma2,    &kGemma3,    &kGemma3Images,
      &kGlm4,       &kGlm4Moe, &kGlm4MoeLite, &kGptOss,  &kGranite,   &kInternLm2, &kLlama,
      &kMinistral3, &kMistral, &kMistral3,    &kMixtral, &kOlmo2,     &kPhi3,      &kQwen2,
      &kQwen2Moe,   &kQwen3,   &kQwen3Moe,    &kSmolLm3, &kStarcoder2};
  return *kFamilies;
}

}  // namespace coxswain::model
