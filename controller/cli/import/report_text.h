// The report of an import as people read it.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_REPORT_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_REPORT_TEXT_H_

#include <string>
#include <string_view>

#include "controller/cli/import/job_import.h"

namespace coxswain::job_import {

// One word or two for an outcome: "renamed", "in the way".
std::string_view OutcomeName(Outcome outcome);

// A line for each key ("lora.yml:12: renamed: lora_r: 32 -> lora.r: 32"), then for each default;
// keys that are not set share one. The last line counts, or names what stands in the way.
std::string ReportText(const Imported& imported, const std::string& shown_file);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_REPORT_TEXT_H_
