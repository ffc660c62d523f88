// What config.json says of a model with a head of scores, so that transformers loads it with that.
#ifndef COXSWAIN_CONTROLLER_EXPORT_SCORE_LABELS_H_
#define COXSWAIN_CONTROLLER_EXPORT_SCORE_LABELS_H_

#include <nlohmann/json_fwd.hpp>

#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// Sets the class, the names of labels (LABEL_0 and so on where the job names none), the kind of
// problem and the token of padding, by which transformers finds the last token of a text. The
// plan's model has labels.
void DescribeScores(const config::JobSpec& job, const plan::Plan& plan,
                    nlohmann::ordered_json* config);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_SCORE_LABELS_H_
