// The identity of a command, whoever sends it. It distinguishes a command that is sent again from
// another command of the same number.
#ifndef COXSWAIN_WORKER_AGENT_WIRE_COMMAND_IDENTITY_H_
#define COXSWAIN_WORKER_AGENT_WIRE_COMMAND_IDENTITY_H_

#include <cstdint>
#include <string>

#include "coxswain/v1/registry_service.pb.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::agent {

v1::CommandKind KindOf(const v1::Command& command);

// "train", "eval", ... as v1::Error names the phase.
const char* PhaseOf(const v1::Command& command);

// "train step 4, 3 bins".
std::string Summary(const v1::Command& command);

// A hash of everything that fixes the result, without fence, number and form of the tokens. Equal
// commands have equal hashes in one process.
uint64_t IdentityOf(const v1::Command& command);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_WIRE_COMMAND_IDENTITY_H_
