// What config.json says of a model with a head of scores, so that transformers loads it with that.
#ifndef COXSWAIN_CONTROLLER_EXPORT_SCORE_LABELS_H_
#define COXSWAIN_CONTROLLER_EXPORT_SCORE_LABELS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// Sets the class, the names of labels, the kind of problem and the token of padding, by which
// transformers finds the last token of a text. Names are those of the job, else of the base's head,
// else LABEL_0 and so on. The plan's model has labels.
void DescribeScores(const config::JobSpec& job, const plan::Plan& plan,
                    nlohmann::ordered_json* config);

// For people, how an adapter of such a model is loaded beside `base`: the labels of a new head and
// the token of padding are in no file of the adapter. Empty without a head of scores.
std::string LoadingScores(const config::JobSpec& job, const plan::Plan& plan,
                          const std::string& base);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_SCORE_LABELS_H_
