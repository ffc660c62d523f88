// Methods whose model gives a document scores instead of tokens, and what their jobs may say.
#ifndef COXSWAIN_COMMON_CONFIG_RULES_SCORE_RULES_H_
#define COXSWAIN_COMMON_CONFIG_RULES_SCORE_RULES_H_

#include <cstdint>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/config/job_spec.h"

namespace coxswain::config {

struct Validated;

// Whether the model of `method` has a score head in place of its LM head: reward, classification.
bool IsScoreMethod(std::string_view method);

// Scores of a document: 1 of a reward model, num_labels of a classifier; 0: there is no score head.
int64_t ScoreLabels(const JobSpec& job);

// Adds errors for keys of `reward` and `classification` under another method, for labels that
// contradict each other, and, under a method with scores, for keys of an LM head.
void CheckScores(Validated* job);

// Fills in the keys that the method reads and the job leaves out.
void ResolveScores(nlohmann::ordered_json* spec);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_RULES_SCORE_RULES_H_
