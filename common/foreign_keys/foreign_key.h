// What the keys of other trainers' configurations mean here: one table a tool. `cox import` turns
// files over by them, and errors about our own files recognise the names.
#ifndef COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_KEY_H_
#define COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_KEY_H_

#include <string_view>
#include <vector>

namespace coxswain::foreign_keys {

enum class Tool { kAxolotl, kLlamaFactory, kTrl };

enum class Fate {
  kCopied,      // the value stands at `ours`
  kTranslated,  // code decides by the value and other keys; `ours` is where it mostly ends
  kNoEffect,    // changes nothing that is trained; `reason` says why
  kDiffers,     // the job trains without it, and a little differently; `reason` says how
  kRefused,     // the job would be another one without it; `ours` is the key to come, if one is
};

struct ForeignKey {
  std::string_view name;  // at the top of their file; in a list "datasets[].split"
  Fate fate = Fate::kNoEffect;
  std::string_view ours = {};    // "spec.lora.r", with a value "spec.adapter: qlora"; may be empty
  std::string_view reason = {};  // a clause without a full stop
  std::string_view preset = {};  // their default as YAML, written where their file is silent
};

// How the tables write their rows.

constexpr ForeignKey Copied(std::string_view name, std::string_view ours,
                            std::string_view preset = {}) {
  return {name, Fate::kCopied, ours, {}, preset};
}
constexpr ForeignKey Translated(std::string_view name, std::string_view ours,
                                std::string_view reason = {}) {
  return {name, Fate::kTranslated, ours, reason, {}};
}
constexpr ForeignKey NoEffect(std::string_view name, std::string_view reason) {
  return {name, Fate::kNoEffect, {}, reason, {}};
}
constexpr ForeignKey Differs(std::string_view name, std::string_view reason) {
  return {name, Fate::kDiffers, {}, reason, {}};
}
constexpr ForeignKey Refused(std::string_view name, std::string_view reason,
                             std::string_view ours = {}) {
  return {name, Fate::kRefused, ours, reason, {}};
}

// Reasons that many rows share.
inline constexpr std::string_view kTracker =
    "trackers are named in logging.report_to, and their files lie in logging.dir";
inline constexpr std::string_view kMesh = "how ranks share the work is planned: parallelism";
inline constexpr std::string_view kMemory = "memory is planned: recompute and precision";
inline constexpr std::string_view kKernel = "kernels are chosen by the plan; same mathematics";
inline constexpr std::string_view kLoader = "how data is loaded changes no record";
inline constexpr std::string_view kHubToken =
    "tokens come from HF_TOKEN or its file, never from a job";
inline constexpr std::string_view kConfigOfFolder = "a folder of data_files where path is local";
inline constexpr std::string_view kDirOfFolder = "data_files where path is a folder";
inline constexpr std::string_view kPushedOnce = "the export is sent once, when the job ends";
inline constexpr std::string_view kReinforcement = "reinforcement learning has no counterpart yet";
inline constexpr std::string_view kVision = "images, videos and sound have no counterpart yet";
inline constexpr std::string_view kGeneration = "text is generated elsewhere, not while training";
inline constexpr std::string_view kReport = "what is printed changes nothing";
inline constexpr std::string_view kCodeOfModel = "no code of a model is run";
inline constexpr std::string_view kUpdateRule = "this update rule has no counterpart";
inline constexpr std::string_view kLossRule = "this loss has no counterpart";

std::vector<ForeignKey> AxolotlKeys();     // all of them
std::vector<ForeignKey> AxolotlRunKeys();  // of them those of training and machines
std::vector<ForeignKey> LlamaFactoryKeys();
std::vector<ForeignKey> TrlKeys();
// Keys of transformers' TrainingArguments.
std::vector<ForeignKey> TrainingArgumentKeys();

}  // namespace coxswain::foreign_keys

#endif  // COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_KEY_H_
