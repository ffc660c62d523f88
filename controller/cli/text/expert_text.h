// How a step used the experts of a model, as text.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_EXPERT_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_EXPERT_TEXT_H_

#include <string>

#include "coxswain/v1/common.pb.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::cli {

// One line: "experts: the fullest has 1.42x the mean (2.10x in layer 3), 5 unused; router entropy
// 2.031 nats; balancing loss 2.0132".
std::string ExpertText(const v1::ExpertUse& use);

// A row a layer with experts; empty without.
std::string ExpertTable(const v1::InspectResponse& ranks);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_EXPERT_TEXT_H_
