// What the keys of other trainers' configurations mean here: one table a tool. `cox import` turns
// files over by them, and errors about our own files recognise the names.
#ifndef COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_KEY_H_
#define COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_KEY_H_

#include <string_view>

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

}  // namespace coxswain::foreign_keys

#endif  // COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_KEY_H_
