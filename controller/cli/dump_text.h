// `cox dump`: what the ranks of a job are doing, as tables.
#ifndef COXSWAIN_CONTROLLER_CLI_DUMP_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_DUMP_TEXT_H_

#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::cli {

// `dump` is what the controller answers (controller/api/dump.cc); what is missing of it, or of
// another kind, shows as "-".
std::string DumpText(const nlohmann::ordered_json& dump);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_DUMP_TEXT_H_
