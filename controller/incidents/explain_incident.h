// An incident in words.
#ifndef COXSWAIN_CONTROLLER_INCIDENTS_EXPLAIN_INCIDENT_H_
#define COXSWAIN_CONTROLLER_INCIDENTS_EXPLAIN_INCIDENT_H_

#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::incidents {

// Lines for people, by epoch, reason, error, ranks, groups and finding of IncidentJson: who stands
// out, what to do, and where each group of ranks stands; threads that stand alike in all groups are
// counted only.
std::string ExplainIncident(const nlohmann::json& incident);

}  // namespace coxswain::incidents

#endif  // COXSWAIN_CONTROLLER_INCIDENTS_EXPLAIN_INCIDENT_H_
