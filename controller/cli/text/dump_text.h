// `cox dump`: tables of what the ranks of a job are doing.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_DUMP_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_DUMP_TEXT_H_

#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::cli {

// `dump` is the controller's answer (controller/api/methods/dump.cc). Fields that are missing or
// have another type show as "-".
std::string DumpText(const nlohmann::ordered_json& dump);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_DUMP_TEXT_H_
