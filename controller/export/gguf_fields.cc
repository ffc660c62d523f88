#include "controller/export/gguf_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/model/files/gguf_family.h"
#include "common/model/gguf_form.h"
#include "common/status_macros.h"
#include "controller/export/gguf_types.h"
#include "controller/text/tokenizer/gguf_vocabulary.h"

namespace coxswain::exports {
namespace {

// Of the layout of quantised blocks. Source: ggml.h, GGML_QNT_VERSION.
constexpr uint32_t kQuantizationVersion = 2;

// "163K", "7.2B". Source: gguf-py utility.py, model_weight_count_rounded_notation.
std::string Rounded(int64_t parameters) {
  struct Unit {
    double size;
    char letter;
  };
  auto scaled = static_cast<double>(parameters) * 1e-3;
  char letter = 'K';
  for (const Unit& unit : {Unit{1e6, 'M'}, Unit{1e9, 'B'}, Unit{1e12, 'T'}}) {
    if (static_cast<double>(parameters) <= unit.size) break;
    scaled = static_cast<double>(parameters) / unit.size;
    letter = unit.letter;
  }
  char text[32];
  // Two digits at least.
  std::snprintf(text, sizeof(text), "%.*f%c", std::nearbyint(scaled) < 10 ? 1 : 0, scaled, letter);
  return text;
}

// "163K", or of a model with experts "8x169K": their number, and the size of a model with one.
std::string SizeLabel(const plan::Plan& plan, const std::vector<GgufTensor>& tensors) {
  int64_t parameters = 0;
  for (const GgufTensor& tensor : tensors) parameters += tensor.elements() / tensor.parts;
  const int64_t experts = plan.model.mixture.experts;
  return experts > 0 ? absl::StrCat(experts, "x", Rounded(parameters)) : Rounded(parameters);
}

model::GgufExtras Extras(const plan::Plan& plan) {
  model::GgufExtras extras;
  const absl::StatusOr<std::string> text =
      ReadFile(absl::StrCat(plan.model_path, "/config.json"), kMaxConfigBytes);
  const nlohmann::json config =
      nlohmann::json::parse(text.ok() ? *text : "", nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return extras;
  const auto context = config.find("max_position_embeddings");
  if (context != config.end() && context->is_number_integer()) extras.context = *context;
  const auto head_dim = config.find("head_dim");
  extras.head_dim = head_dim != config.end() && head_dim->is_number_integer();
  return extras;
}

void AddVocabulary(data::GgufVocabulary vocabulary, const TrainedFormat& format,
                   std::vector<GgufField>* fields) {
  const auto add = [fields](const char* key, GgufValue value) {
    fields->push_back({absl::StrCat("tokenizer.", key), std::move(value)});
  };
  const auto add_known = [&add](const char* key, const auto& value) {
    if (value.has_value()) add(key, *value);
  };
  add("ggml.model", std::move(vocabulary.model));
  add("ggml.pre", std::move(vocabulary.pre));
  add("ggml.tokens", std::move(vocabulary.tokens));
  if (!vocabulary.scores.empty()) add("ggml.scores", std::move(vocabulary.scores));
  add("ggml.token_type", std::move(vocabulary.types));
  if (!vocabulary.merges.empty()) add("ggml.merges", std::move(vocabulary.merges));
  add_known("ggml.bos_token_id", vocabulary.bos);
  add_known("ggml.eos_token_id", vocabulary.eos);
  // An end of answers that the job taught; llama.cpp stops at either.
  for (const int64_t end : format.ends) {
    if (vocabulary.eos == static_cast<uint32_t>(end)) continue;
    add("ggml.eot_token_id", static_cast<uint32_t>(end));
    break;
  }
  add_known("ggml.padding_token_id", vocabulary.pad);
  add_known("ggml.add_bos_token", vocabulary.add_bos);
  add_known("ggml.add_eos_token", vocabulary.add_eos);
  add_known("ggml.add_space_prefix", vocabulary.add_space_prefix);
  if (!vocabulary.chat_template.empty()) {
    add("chat_template", std::move(vocabulary.chat_template));
  }
}

}  // namespace

absl::StatusOr<std::vector<GgufField>> GgufModelFields(const config::JobSpec& job,
                                                       const plan::Plan& plan,
                                                       const TrainedFormat& format,
                                                       const std::string& tokenizer,
                                                       const std::vector<GgufTensor>& tensors) {
  const model::GgufForm& form = *model::FindGgufForm(plan.model);
  const std::string architecture(form.architecture);
  ASSIGN_OR_RETURN(
      data::GgufVocabulary vocabulary,
      data::ReadGgufVocabulary(tokenizer, absl::StrCat(plan.model_path, "/config.json"),
                               plan.model.vocab_size));
  std::vector<GgufField> fields = {
      {"general.architecture", architecture},
      {"general.type", std::string("model")},
      {"general.name", job.name},
      {"general.size_label", SizeLabel(plan, tensors)},
      {"general.file_type", static_cast<uint32_t>(*GgufFileTypeOf(job.export_gguf.model))},
      {"general.quantization_version", kQuantizationVersion}};
  for (const auto& [key, value] : form.settings(plan.model, Extras(plan))) {
    std::visit(
        [&, &key = key](auto number) {
          fields.push_back({absl::StrCat(architecture, ".", key), number});
        },
        value);
  }
  AddVocabulary(std::move(vocabulary), format, &fields);
  return fields;
}

std::vector<GgufField> GgufAdapterFields(const config::JobSpec& job, const plan::Plan& plan) {
  const model::GgufForm& form = *model::FindGgufForm(plan.model);
  const auto rank = static_cast<double>(plan.lora.rank);
  const double alpha = job.lora.alpha * (job.lora.use_rslora ? std::sqrt(rank) : 1.0);
  return {{"general.architecture", std::string(form.architecture)},
          {"general.type", std::string("adapter")},
          {"adapter.type", std::string("lora")},
          {"general.name", job.name},
          {"adapter.lora.alpha", static_cast<float>(alpha)},
          {"general.quantization_version", kQuantizationVersion}};
}

}  // namespace coxswain::exports
