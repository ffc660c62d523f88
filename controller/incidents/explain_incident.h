// An incident in words.
#ifndef COXSWAIN_CONTROLLER_INCIDENTS_EXPLAIN_INCIDENT_H_
#define COXSWAIN_CONTROLLER_INCIDENTS_EXPLAIN_INCIDENT_H_

#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::incidents {

// Lines for people from an IncidentJson. They name the rank that stands out, what to do, and where
// each group of ranks stands. Threads that stand alike in all groups are only counted.
std::string ExplainIncident(const nlohmann::json& incident);

}  // namespace coxswain::incidents

#endif  // COXSWAIN_CONTROLLER_INCIDENTS_EXPLAIN_INCIDENT_H_
