#include "common/config/schema/preference_keys.h"

#include "common/config/schema/key.h"

namespace coxswain::config {

// Source: TRL 1.10 dpo_trainer.py, kto_trainer.py, experimental/cpo and experimental/orpo, whose
// names, formulas and defaults these are.
void AppendPreferenceKeys(std::vector<Key>* table) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.preference",
       .doc = "The loss of `method: dpo`, `orpo`, `cpo`, `simpo` and `kto`, as TRL defines it. A "
              "key that the method does not read is an error."},
      {.path = "spec.preference.loss", .type = Type::kWordList, .def = "null",
       .words = {"sigmoid", "cdpo", "hinge", "ipo", "robust", "apo_zero", "sigmoid_norm", "sft",
                 "kto", "apo_zero_unpaired", "orpo", "simpo"},
       .later = {"exo_pair", "nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_down",
                 "discopop"},
       .doc = "dpo: `sigmoid` (absent), `cdpo` (sigmoid with `label_smoothing`, conservative DPO), "
              "`hinge`, `ipo` (of mean log-probabilities; the paper has sums), `robust`, "
              "`apo_zero`, `sigmoid_norm` (of mean log-probabilities), `sft` (negative "
              "log-likelihood of the chosen completion), or several of them, which are added. cpo: "
              "`sigmoid` (absent), `hinge`, `ipo`. kto: `kto` (absent), "
              "`apo_zero_unpaired` (without KL). orpo and simpo have their own alone.",
       .nullable = true},
      {.path = "spec.preference.loss_weights", .type = Type::kNumberList, .def = "null",
       .range = kNonNegative, .doc = "dpo: factor of each loss; absent: 1.", .nullable = true},
      {.path = "spec.preference.beta", .type = Type::kNumber, .def = "null", .range = kPositive,
       .doc = "How strongly the policy is held to its reference; of `ipo` tau, of orpo the factor "
              "of the odds ratio. absent: 0.1, for simpo 2.0.", .nullable = true},
      {.path = "spec.preference.label_smoothing", .type = Type::kNumber, .def = "null",
       .range = {.min = 0, .max = 0.5, .max_open = true},
       .doc = "Probability that chosen and rejected are exchanged. dpo: of the losses `cdpo` and "
              "`robust`. cpo: of `sigmoid`. simpo reads it too. absent: 0.", .nullable = true},
      {.path = "spec.preference.gamma", .type = Type::kNumber, .def = "null",
       .range = kNonNegative,
       .doc = "simpo: the margin by which the chosen reward is to be above the rejected one. "
              "absent: 0.5.", .nullable = true},
      {.path = "spec.preference.nll_weight", .type = Type::kNumber, .def = "null",
       .range = kNonNegative,
       .doc = "Factor of the negative log-likelihood of the chosen side, which is added: cpo and "
              "simpo over its completion, orpo over prompt and completion. absent: 1, for simpo "
              "0. dpo has the loss `sft` for it.", .nullable = true},
      {.path = "spec.preference.reference", .type = Type::kWord, .def = "null",
       .words = {"start", "base", "cached", "none"},
       .doc = "dpo, kto: the model with which the policy is compared. `start`: what the policy was "
              "at step 0. `base`: the model without the adapter. `cached`: `start`, whose "
              "log-probabilities are computed once and kept. absent: start. orpo, cpo and simpo "
              "have `none`.", .nullable = true},
      {.path = "spec.preference.desirable_weight", .type = Type::kNumber, .def = "null",
       .range = kNonNegative, .doc = "kto: factor of the loss of good completions; absent: 1.",
       .nullable = true},
      {.path = "spec.preference.undesirable_weight", .type = Type::kNumber, .def = "null",
       .range = kNonNegative, .doc = "kto: factor of the loss of bad completions; absent: 1.",
       .nullable = true},
      // clang-format on
  };
  table->insert(table->end(), rows.begin(), rows.end());
}

}  // namespace coxswain::config
