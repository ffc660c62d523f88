// The linears of single experts, and how files of adapters call them.
#ifndef COXSWAIN_COMMON_MODEL_FILES_SINGLE_EXPERT_KEY_H_
#define COXSWAIN_COMMON_MODEL_FILES_SINGLE_EXPERT_KEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/files/stacked_files.h"

namespace coxswain::model {

// "base_model.model.model.layers.0.mlp.experts.3.up_proj.lora_A.weight" of a file that has one
// matrix each; `part` is A or B. Source: peft save_and_load, vLLM lora/utils.py.
inline std::string SingleExpertKey(const StackedFile& file, int64_t expert, Part part) {
  const std::string weight = file.NameOf(expert);
  const std::string module = weight.substr(0, weight.rfind('.'));
  return absl::StrCat("base_model.model.", module,
                      part == Part::kLoraA ? ".lora_A.weight" : ".lora_B.weight");
}

// The tensors in which files of the base have the stack that `adapter`, its A or B, adapts.
inline std::vector<StackedFile> FilesOfAdapted(const Architecture& model, Parameter adapter) {
  adapter.part = Part::kBase;
  return StackedFilesOf(model, adapter);
}

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FILES_SINGLE_EXPERT_KEY_H_
