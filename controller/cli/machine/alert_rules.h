// deploy/prometheus/alerts.yaml, compiled in (cmake/embed.cmake).
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_ALERT_RULES_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_ALERT_RULES_H_

#include <map>
#include <string>

namespace coxswain::cli {

// Texts of the rule files by file name.
const std::map<std::string, std::string>& AlertRules();

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_ALERT_RULES_H_
