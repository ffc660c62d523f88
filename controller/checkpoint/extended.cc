#include "controller/checkpoint/extended.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/status_macros.h"

namespace coxswain::checkpoint {

absl::StatusOr<std::optional<ResumePoint>> FindExtended(Files* files, const config::JobSpec& job,
                                                        const RecipeName& recipe) {
  const bool path = absl::StartsWith(job.resume, "/");
  if (job.resume != "auto" && !path) return std::optional<ResumePoint>();
  ResumeQuery query{.job = job.name,
                    .output_dir = job.output_dir,
                    .recipe = recipe,
                    .extend = job.extend,
                    .own_only = path};
  if (path) query.explicit_starts = {{.directory = job.resume}};
  std::vector<std::string> passed_over;
  ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                   FindResumePoint(files, query, &passed_over));
  return point && Extends(*point, query) ? point : std::nullopt;
}

}  // namespace coxswain::checkpoint
