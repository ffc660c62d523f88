// Plain structs -> messages, and one message back.
#ifndef COXSWAIN_WORKER_AGENT_WIRE_WIRE_H_
#define COXSWAIN_WORKER_AGENT_WIRE_WIRE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "coxswain/v1/common.pb.h"
#include "coxswain/v1/registry_service.pb.h"
#include "coxswain/v1/worker_service.pb.h"
#include "worker/comm/collectives.h"
#include "worker/engine/engine.h"

namespace coxswain::agent {

v1::MemoryBytes ToWire(const engine::MemoryBytes& memory);
v1::PhaseSeconds ToWire(const engine::PhaseSeconds& seconds);
v1::Preference ToWire(const engine::PreferenceStats& stats);
v1::PolicyReport ToWire(const engine::PolicyStats& stats);
v1::ExpertUse ToWire(const engine::ExpertUse& use);  // without its layers
v1::LayerExpertUse ToWire(const engine::LayerExpertUse& use);
v1::CollectiveProgress ToWire(const comm::Progress& progress);
v1::ConnectDone ToConnectDone(const std::vector<plan::LinkSpeed>& links,
                              const std::string& fingerprint);

v1::GeneratedText ToWire(const engine::GeneratedText& text);
engine::GenerateChunk FromWire(const v1::Generate& generate);  // the engine checks it
engine::WrittenWeights FromWire(const v1::Load& load);         // likewise

// The error has code, message, phase and kind (common/faults/failure_kind.h), and no rank.
v1::Error ToError(const absl::Status& status, const std::string& phase);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_WIRE_WIRE_H_
