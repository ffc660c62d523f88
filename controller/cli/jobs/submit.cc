#include "controller/cli/jobs/submit.h"

#include "absl/status/status.h"
#include "common/config/parser/job_parser.h"
#include "common/config/yaml_tree.h"
#include "common/identity.h"
#include "common/status_macros.h"
#include "controller/sources/fetch_sources.h"

namespace coxswain::cli {

absl::StatusOr<v1::Job> SubmitJob(Cox* cox, const JobFile& file, const SubmitOptions& options) {
  RETURN_IF_ERROR(cox->Server().usable());
  // Another machine's controller cannot see this directory: relative paths are errors then.
  JobFile checked = file;
  if (!cox->Server().IsLoopback()) checked.base_dir.clear();
  ASSIGN_OR_RETURN(const config::ParsedJob job, ParseJobFile(checked));
  v1::SubmitRequest request;
  request.set_yaml(file.rewritten ? config::EmitBlockYaml(config::ParseYaml(file.yaml).root)
                                  : file.yaml);
  request.set_yaml_path(file.path);
  request.set_idempotency_key(options.idempotency_key.empty() ? NewUuid()
                                                              : options.idempotency_key);
  request.set_start_paused(options.paused);
  // The controller asks the Hub before it answers.
  const bool asks = sources::NamesSources(job.spec);
  return cox->Server().Submit(request, std::chrono::seconds(asks ? 180 : 10));
}

}  // namespace coxswain::cli
