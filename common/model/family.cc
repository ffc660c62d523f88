#include "common/model/family.h"

#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

const Family& FamilyOf(const ModelConfig& config) {
  const Family* family = FindFamily(config.architecture);
  if (family == nullptr) {
    throw std::out_of_range(absl::StrCat("no model family \"", config.architecture, "\""));
  }
  return *family;
}

}  // namespace

const Family* FindFamily(std::string_view architecture) {
  for (const Family* family : Families()) {
    if (family->architecture == architecture) return family;
  }
  return nullptr;
}

Architecture ArchitectureOf(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  Architecture model{.blocks = {}, .outside = family.outside(config)};
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    model.blocks.push_back(family.block(config, layer));
  }
  return model;
}

const TextPart& TextPartOf(const ModelConfig& config) { return FamilyOf(config).text; }

Outside OutsideOf(const ModelConfig& config) { return FamilyOf(config).outside(config); }

}  // namespace coxswain::model
