#include "common/config/schema/score_keys.h"

#include "common/config/schema/key.h"

namespace coxswain::config {

// Source: TRL 1.10 reward_config.py (center_rewards_coefficient), transformers' PretrainedConfig
// (num_labels, id2label, problem_type).
void AppendScoreKeys(std::vector<Key>* table) {
  const std::vector<Key> rows = {
      // clang-format off
      {.path = "spec.reward",
       .doc = "Read when `method: reward`. A text is scored at its last token that is not the "
              "padding of its tokenizer, else of config.json, else the end of texts. The head "
              "`score` always trains in full; under an adapter it is saved with it, and the README "
              "of the adapter says how both are loaded."},
      {.path = "spec.reward.center_coefficient", .type = Type::kNumber, .def = "null",
       .range = kNonNegative,
       .doc = "Factor c of a term that holds scores near zero: the mean over pairs of "
              "c (s_chosen + s_rejected)^2. absent: 0; 0.01 is usual. TRL: "
              "center_rewards_coefficient.", .nullable = true},
      {.path = "spec.classification",
       .doc = "Read when `method: classification`. Texts are scored, and the head trains, as those "
              "of `reward`."},
      {.path = "spec.classification.num_labels", .type = Type::kInt, .def = "null",
       .range = {.min = 1, .max = 65535},
       .doc = "Scores of a text: the classes, or with `problem: regression` the numbers. absent: "
              "the number of `label_names`. `single_label` has at least 2.", .nullable = true},
      {.path = "spec.classification.label_names", .type = Type::kStringList, .def = "null",
       .doc = "Names of the classes in order of their index, 0 first; records may use them. "
              "absent: those of the base's head, else LABEL_0, LABEL_1, ...", .nullable = true},
      {.path = "spec.classification.problem", .type = Type::kWord, .def = "null",
       .words = {"single_label", "multi_label", "regression"},
       .doc = "`single_label` (absent): one class of each text, by cross-entropy. `multi_label`: "
              "any number of classes, by binary cross-entropy of each. `regression`: numbers, by "
              "the squared error. transformers: problem_type. The accuracy of `multi_label` is the "
              "share of labels that are right.", .nullable = true},
      // clang-format on
  };
  table->insert(table->end(), rows.begin(), rows.end());
}

}  // namespace coxswain::config
