#include "controller/folders/written_names.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace coxswain {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// `name` is `begin`, a number and `end`.
bool IsNumbered(std::string_view name, std::string_view begin, std::string_view end) {
  if (name.size() <= begin.size() + end.size()) return false;
  return name.starts_with(begin) && name.ends_with(end) &&
         IsNumber(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

// "model-00001-of-00003.safetensors".
bool IsModelShard(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  const size_t of = name.find(kOf);
  return of != std::string_view::npos && IsNumbered(name.substr(0, of), "model-", "") &&
         IsNumbered(name.substr(of), kOf, ".safetensors");
}

bool IsIn(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const std::vector<std::string>& TokenizerFiles() {
  static const auto* files = new std::vector<std::string>{"tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "special_tokens_map.json",
                                                          "vocab.json",
                                                          "merges.txt",
                                                          "added_tokens.json",
                                                          "tokenizer.model",
                                                          "chat_template.jinja",
                                                          "chat_template.json"};
  return *files;
}

const std::vector<std::string>& ModelCompanions() {
  static const auto* files = new std::vector<std::string>{
      "generation_config.json", "preprocessor_config.json", "processor_config.json"};
  return *files;
}

bool IsCheckpointFile(const std::string& name) {
  return name == kTrainerStateName || IsNumbered(name, "rank-", ".safetensors");
}

bool IsAdapterFile(const std::string& name) {
  return name == "adapter_config.json" || name == "adapter_model.safetensors" ||
         name == kCardName || IsIn(TokenizerFiles(), name);
}

bool IsModelFile(const std::string& name) {
  return name == "config.json" || name == "model.safetensors" ||
         name == "model.safetensors.index.json" || IsModelShard(name) ||
         IsIn(TokenizerFiles(), name) || IsIn(ModelCompanions(), name);
}

int64_t CheckpointStep(const std::string& name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  if (!name.starts_with(kPrefix)) return -1;
  int64_t step = -1;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, step);
  return error == std::errc() && at == end && begin != end ? step : -1;
}

}  // namespace coxswain
