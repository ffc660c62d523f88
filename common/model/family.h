// A model family: how its config.json is read and what its blocks compute. One file of families/
// each.
#ifndef COXSWAIN_COMMON_MODEL_FAMILY_H_
#define COXSWAIN_COMMON_MODEL_FAMILY_H_

#include <string_view>
#include <vector>

#include "common/model/block_builder.h"
#include "common/model/config_keys.h"
#include "common/model/gguf_form.h"
#include "common/model/model_config.h"
#include "common/model/text_part.h"

namespace coxswain::model {

struct Family {
  std::string_view architecture;      // class of transformers, "LlamaForCausalLM"
  std::string_view score_class = {};  // its class with a head of scores; empty: it has none
  std::string_view model_type;        // what config.json calls it where it names no class
  std::string_view checkpoints;       // published models of the family, for people
  // Fills all but `architecture`. Settings that change the numbers and that the engine does not
  // know are failed by name.
  void (*read)(ConfigKeys& keys, ModelConfig* config) = nullptr;
  Block (*block)(const ModelConfig& config, int64_t layer) = &PreNormBlock;
  Outside (*outside)(const ModelConfig& config) = &UsualOutside;
  // Keys, beside those that are harmless in every family, that change no number of training.
  std::vector<std::string_view> harmless;
  TextPart text = {};
  // Files may have layers behind the last, which predict further tokens and are not of the model.
  bool predicts_more = false;
  GgufForm gguf = {};
};

// The tensor of a head of scores, in every family. Source: transformers modeling_layers.py,
// GenericForSequenceClassification.
inline constexpr char kScoreWeight[] = "score.weight";

// All that there are, by name. Defined in families/families.cc.
const std::vector<const Family*>& Families();

// Null where no family has the architecture.
const Family* FindFamily(std::string_view architecture);

// What the config's family makes of it; they throw std::out_of_range without one.
Architecture ArchitectureOf(const ModelConfig& config);
Outside OutsideOf(const ModelConfig& config);
const TextPart& TextPartOf(const ModelConfig& config);

// The head of tokens in the files of a model that has one of scores.
bool IsOtherHead(const ModelConfig& config, std::string_view tensor);

// A tensor of the files that the model does not read, and that stays as it is.
bool IsBeside(const ModelConfig& config, std::string_view tensor);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FAMILY_H_
