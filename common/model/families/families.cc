#include "common/model/families/families.h"

namespace coxswain::model {

const std::vector<const Family*>& Families() {
  static const auto* const kFamilies = new std::vector<const Family*>{
      &kGemma, &kGranite, &kLlama, &kMistral, &kQwen2, &kQwen3, &kSmolLm3};
  return *kFamilies;
}

}  // namespace coxswain::model
