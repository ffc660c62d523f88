// A job that goes on from a checkpoint reads what the checkpoint's job read.
#ifndef COXSWAIN_CONTROLLER_SOURCES_KEPT_REVISIONS_H_
#define COXSWAIN_CONTROLLER_SOURCES_KEPT_REVISIONS_H_

#include <string>

#include "common/config/job_spec.h"

namespace coxswain::sources {

// Gives `job` the commits of the same repositories in `effective_json`, the job of a checkpoint,
// where the job names no revision itself. Datasets are compared by place and config. Unchanged
// where `effective_json` is empty or no job.
void KeepRevisions(const std::string& effective_json, config::JobSpec* job);

}  // namespace coxswain::sources

#endif  // COXSWAIN_CONTROLLER_SOURCES_KEPT_REVISIONS_H_
