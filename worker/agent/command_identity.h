// Which command it is, whoever sends it: what tells one that is sent again from another one of the
// same number.
#ifndef COXSWAIN_WORKER_AGENT_COMMAND_IDENTITY_H_
#define COXSWAIN_WORKER_AGENT_COMMAND_IDENTITY_H_

#include <cstdint>
#include <string>

#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::agent {

// "train", "eval", ... as v1::Error names the phase.
const char* PhaseOf(const v1::Command& command);

// "train step 4, 3 bins".
std::string Summary(const v1::Command& command);

// Of all that fixes what is computed, but not of fence, number and form of the tokens: equal in one
// process for equal commands.
uint64_t IdentityOf(const v1::Command& command);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_COMMAND_IDENTITY_H_
