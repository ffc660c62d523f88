// `-o json|yaml|wide|table|name`.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_OUTPUT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_OUTPUT_H_

#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::cli {

// Structured formats print a whole object. For the others each verb formats its own text.
inline bool IsStructured(const std::string& format) { return format == "json" || format == "yaml"; }

// `value` in "json" (two-space indentation) or "yaml", with a line feed. Text that is not UTF-8
// gets replacement characters.
void PrintStructured(const nlohmann::ordered_json& value, const std::string& format,
                     std::ostream& out);

// Block-style YAML that parses back to `value`.
std::string ToYaml(const nlohmann::ordered_json& value);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_OUTPUT_H_
