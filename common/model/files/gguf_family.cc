#include "common/model/files/gguf_family.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/family.h"

namespace coxswain::model {
namespace {

std::string Supported() {
  std::vector<std::string> names;
  for (const Family* family : Families()) {
    if (!family->gguf.architecture.empty()) names.emplace_back(family->architecture);
  }
  return absl::StrJoin(names, ", ");
}

// Why the family's form does not fit the model; empty: it does.
std::string Misfit(const GgufForm& form, const ModelConfig& config) {
  if (config.labels > 0) return "a head of scores has no name there";
  const bool rope =
      config.rope.type == "default" || (form.llama3_rope && config.rope.type == "llama3");
  if (!rope) return absl::StrCat("rope_type ", config.rope.type, " is not written");
  if (!form.biases && (config.qkv_bias || config.output_bias)) {
    return "llama.cpp knows no biases of its attention";
  }
  const bool any = std::any_of(config.layer_windows.begin(), config.layer_windows.end(),
                               [](int64_t window) { return window > 0; });
  for (int64_t layer = 0; any && layer < config.num_layers; ++layer) {
    const int64_t window = config.layer_windows[static_cast<size_t>(layer)];
    if ((window > 0) == (form.has_window != nullptr && form.has_window(layer))) continue;
    return absl::StrCat("layer ", layer, " has a sliding window of ", window,
                        " tokens (0: none), which llama.cpp does not give it");
  }
  return form.refusal == nullptr ? "" : form.refusal(config);
}

}  // namespace

const GgufForm* FindGgufForm(const ModelConfig& config) {
  const Family* family = FindFamily(config.architecture);
  return family == nullptr || family->gguf.architecture.empty() ? nullptr : &family->gguf;
}

absl::Status CheckGgufForm(const ModelConfig& config) {
  const GgufForm* form = FindGgufForm(config);
  if (form == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("no GGUF is written of ", config.architecture, "; it is of ", Supported()));
  }
  const std::string misfit = Misfit(*form, config);
  if (misfit.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("no GGUF is written of this ", config.architecture, ": ", misfit));
}

absl::Status CheckGgufAdapter(const ModelConfig& config, const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    if (!parameter.trainable()) continue;
    const bool of_head = parameter.kind == Kind::kHead && !config.tie_embeddings;
    const bool pair = IsLoraA(parameter) || IsLoraB(parameter);
    if (pair && (parameter.kind == Kind::kLinear || of_head)) continue;
    return absl::UnimplementedError(absl::StrCat(
        "no GGUF of an adapter holds \"", parameter.name,
        "\"; it holds LoRA pairs of linears of blocks, and of a head that is not tied"));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::model
