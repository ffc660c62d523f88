#include "common/model/family.h"

#include <stdexcept>
#include <string>

#include "absl/strings/numbers.h"
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
  Architecture model{.blocks = {}, .outside = OutsideOf(config)};
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    model.blocks.push_back(family.block(config, layer));
  }
  return model;
}

const TextPart& TextPartOf(const ModelConfig& config) { return FamilyOf(config).text; }

bool IsOtherHead(const ModelConfig& config, std::string_view tensor) {
  return config.labels > 0 && tensor == FamilyOf(config).outside(config).head.name;
}

bool IsBeside(const ModelConfig& config, std::string_view tensor) {
  const Family& family = FamilyOf(config);
  if (family.text.IsBeside(tensor)) return true;
  const std::string layers = family.outside(config).layers;
  if (!family.predicts_more || !tensor.starts_with(layers)) return false;
  tensor.remove_prefix(layers.size());
  int64_t layer = 0;
  return absl::SimpleAtoi(std::string(tensor.substr(0, tensor.find('.'))), &layer) &&
         layer >= config.num_layers;
}

Outside OutsideOf(const ModelConfig& config) {
  Outside outside = FamilyOf(config).outside(config);
  if (config.labels == 0) return outside;
  outside.head = {
      .name = kScoreWeight, .kind = Kind::kHead, .rows = config.labels, .cols = config.hidden_size};
  outside.tied = false;
  return outside;
}

}  // namespace coxswain::model
