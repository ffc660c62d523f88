#include "controller/cli/jobs/foreign_file.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "controller/cli/import/report_text.h"

namespace coxswain::cli {

absl::StatusOr<std::string> ImportForeignFile(Cox* cox, const std::string& shown,
                                              const job_import::ImportRequest& request) {
  const absl::StatusOr<job_import::Imported> imported = job_import::ImportJob(request);
  if (!imported.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, ": ", std::string(imported.status().message())));
  }
  const std::string report = job_import::ReportText(*imported, shown);
  if (!imported->in_the_way.empty()) {
    const size_t last = report.rfind('\n', report.size() - 2) + 1;
    cox->err() << report.substr(0, last);
    return absl::InvalidArgumentError(report.substr(last));
  }
  cox->err() << report;
  return imported->yaml;
}

}  // namespace coxswain::cli
