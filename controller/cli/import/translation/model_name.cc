#include "controller/cli/import/translation/model_name.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace coxswain::job_import {
namespace {

constexpr std::string_view kVisionModel =
    "a model of images or sound is not supported yet: base_model of a text model";
constexpr std::string_view kRecurrent =
    "a model with recurrent layers is not supported yet: base_model of a dense transformer";
constexpr std::string_view kQuantised =
    "a checkpoint quantised so is not supported: the unquantised model, or one of bitsandbytes";
constexpr std::string_view kFamily =
    "its family is not supported yet: base_model of one that `cox models` lists";
constexpr std::string_view kSupported = {};

struct Pattern {
  std::string_view part;  // of the name in lower case
  std::string_view refusal;
};

// The first that is found decides.
constexpr Pattern kPatterns[] = {
    // clang-format off
    {"-vl", kVisionModel}, {"vision", kVisionModel}, {"llava", kVisionModel},
    {"pixtral", kVisionModel}, {"voxtral", kVisionModel}, {"smolvlm", kVisionModel},
    {"internvl", kVisionModel}, {"glm-4.5v", kVisionModel}, {"glm-4.6v", kVisionModel},
    {"gemma-3n", kVisionModel}, {"-omni", kVisionModel}, {"qwen2-audio", kVisionModel},
    {"gemma-4", kVisionModel}, {"llama-4", kVisionModel}, {"mistral-medium-3", kVisionModel},
    {"jamba", kRecurrent}, {"mamba", kRecurrent}, {"falcon-h1", kRecurrent},
    {"nemotron-3", kRecurrent}, {"nemotron-h", kRecurrent}, {"qwen3.5", kRecurrent},
    {"qwen3_5", kRecurrent}, {"qwen3-next", kRecurrent}, {"kimi-linear", kRecurrent},
    {"granite-4.0", kRecurrent}, {"lfm2", kRecurrent}, {"plamo", kRecurrent},
    {"deepseek-v2", kFamily}, {"deepseek-coder-v2", kFamily}, {"deepseek-v3.2", kFamily},
    {"mistral-small-4", kFamily}, {"deepseek-v4", kFamily}, {"glm-5", kFamily},
    {"minimax", kFamily}, {"trinity-", kFamily}, {"dbrx", kFamily},
    {"ernie", kFamily}, {"phi-3.5-moe", kFamily}, {"phi-mini-moe", kFamily},
    {"granite-3.0-1b-a400m", kFamily}, {"granite-3.0-3b-a800m", kFamily},
    {"gptq", kQuantised}, {"-awq", kQuantised}, {"nvfp4", kQuantised},
    {"-fp8", kQuantised}, {"prequantized", kQuantised}, {"-aqlm", kQuantised},
    {"phi-1", kFamily}, {"phi-2", kFamily}, {"phi-3-small", kFamily},
    {"olmo-2", kSupported}, {"olmo", kFamily}, {"starcoder2", kSupported}, {"starcoder", kFamily},
    {"internlm2", kSupported}, {"internlm", kFamily}, {"glm-4-9b-0414", kSupported},
    {"glm-4-32b", kSupported}, {"glm-4-", kFamily}, {"glm4", kFamily},
    {"hunyuan", kFamily}, {"apertus", kFamily}, {"afm-4.5b", kFamily}, {"mimo-7b", kFamily},
    {"seed-oss", kFamily}, {"nemotron-mini", kFamily}, {"exaone", kFamily}, {"falcon", kFamily},
    {"gpt-neox", kFamily}, {"pythia", kFamily}, {"redpajama", kFamily}, {"mpt-", kFamily},
    {"replit", kFamily}, {"stablelm", kFamily}, {"bloom", kFamily}, {"gpt2", kFamily},
    {"gpt-j", kFamily}, {"cerebras-gpt", kFamily}, {"btlm", kFamily}, {"xgen", kFamily},
    {"qwen/qwen-", kFamily}, {"baichuan", kFamily}, {"chatglm", kFamily}, {"orion", kFamily},
    // clang-format on
};

// router_aux_loss_coef of published config.json files whose output_router_logits is false.
constexpr struct {
  std::string_view part;  // of the name in lower case
  double coef;
} kRouterLosses[] = {{"mixtral-8x7b", 0.02},
                     {"mixtral-8x22b", 0.001},
                     {"qwen3-30b-a3b", 0.001},
                     {"gpt-oss-20b", 0.9}};

// Linears that most families have and these have as one, with another's name.
constexpr struct {
  std::string_view part;  // of the name in lower case
  std::string_view lacks[5];
} kFused[] = {
    {"glm-4-", {"gate_proj", "up_proj"}},
    {"phi-3", {"gate_proj", "up_proj", "q_proj", "k_proj", "v_proj"}},
    {"phi-4", {"gate_proj", "up_proj", "q_proj", "k_proj", "v_proj"}},
};

std::string Lower(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

bool LacksModule(const std::string& name, std::string_view module) {
  const std::string lower = Lower(name);
  for (const auto& row : kFused) {
    if (lower.find(row.part) == std::string::npos) continue;
    return std::find(std::begin(row.lacks), std::end(row.lacks), module) != std::end(row.lacks);
  }
  return false;
}

std::string_view RefusalOfModel(const std::string& name) {
  const std::string lower = Lower(name);
  for (const auto& [part, refusal] : kPatterns) {
    if (lower.find(part) != std::string::npos) return refusal;
  }
  return {};
}

std::optional<double> RouterLossOfModel(const std::string& name) {
  const std::string lower = Lower(name);
  for (const auto& [part, coef] : kRouterLosses) {
    if (lower.find(part) != std::string::npos) return coef;
  }
  return std::nullopt;
}

}  // namespace coxswain::job_import
