#include "controller/cli/foreign_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/job_import/job_import.h"
#include "controller/job_import/report_text.h"

namespace coxswain::cli {

absl::Status ImportWhereForeign(Cox* cox, const std::string& name, JobFile* file) {
  if (!job_import::IsForeign(file->yaml)) return absl::OkStatus();
  job_import::ImportRequest request;
  request.text = file->yaml;
  request.name = name;
  request.base_dir = file->base_dir;
  const absl::StatusOr<job_import::Imported> imported = job_import::ImportJob(request);
  if (!imported.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->shown, ": ", std::string(imported.status().message())));
  }
  const std::string report = job_import::ReportText(*imported, file->shown);
  if (!imported->in_the_way.empty()) {
    const size_t last = report.rfind('\n', report.size() - 2) + 1;
    cox->err() << report.substr(0, last);
    return absl::InvalidArgumentError(report.substr(last));
  }
  cox->err() << report;
  file->yaml = imported->yaml;
  file->imported = file->rewritten = true;
  return absl::OkStatus();
}

}  // namespace coxswain::cli
