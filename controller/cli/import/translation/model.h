// The base model and the adapter.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_MODEL_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_MODEL_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// Writes base_model from the two keys: the name and revision of the Hub, or a path. Refuses a name
// that tells a model which is not supported.
void TranslateModel(Translation* t, std::string_view key, std::string_view revision_key,
                    const std::string& base_dir);

// The name of the Hub or the path that was written; "" before.
std::string ModelOf(const Translation& t);

// How the tool names what an adapter is made of. What a file leaves out is `default_*`, as YAML.
struct AdapterKeys {
  std::string_view rank, dropout, dora, rslora, to_save;
  std::string_view default_rank, default_alpha, default_dropout;
};

// Writes lora.* but the targets, for a job that trains an adapter; LoRA+ is off unless asked for.
void TranslateAdapter(Translation* t, const AdapterKeys& keys);

// Writes an adapter on a base of four bits, or of eight.
void SetQuantisedBase(Translation* t, std::string_view key, bool eight_bits);
// Four bits of another type than nf4 are refused.
void SetFormatOf4Bits(Translation* t, std::string_view key, std::string_view type);

// Writes lora.target_modules from names that may have a path before them ("self_attn.q_proj"), or
// from a pattern over such names. A router among them is trained in full. The linears of Mixtral's
// experts become stacks.
void TranslateTargets(Translation* t, std::string_view key, const std::vector<std::string>& names);
// Writes the stacks of experts that are adapted; a router among them is trained in full.
void TranslateStacks(Translation* t, std::string_view key);
// Writes the factor of the balancing loss, which their trainers take over a micro-batch.
void TranslateAuxLoss(Translation* t, std::string_view key);

// What PEFT adapts in Llama, Mistral and Qwen where nobody says.
void PresetTargets(Translation* t);

// Keys of an adapter in a job that trains none.
void LeaveOutAdapter(Translation* t, std::initializer_list<std::string_view> keys);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_MODEL_H_
