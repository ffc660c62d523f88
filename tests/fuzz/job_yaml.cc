// Job YAML: what is accepted is accepted again as it is stored, what is not says why.
#include <string>

#include "common/config/parser/job_parser.h"
#include "common/config/parser/stored_job.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string yaml(fuzz::TextOf(data, size));
  const config::ParsedJob job = config::ParseJob(yaml, "/jobs");
  if (!job.errors.empty()) {
    fuzz::Expect(!config::FormatErrors(job.errors, "job.yaml").empty(), "an error says something");
    return 0;
  }
  const config::ParsedJob stored = config::ReadStoredJob(job.effective_json, yaml, "/jobs");
  fuzz::Expect(stored.errors.empty(),
               "an accepted job is read back: " + config::FormatErrors(stored.errors, "job.yaml"));
  fuzz::Expect(stored.effective_json == job.effective_json,
               "a stored job is the one that was accepted");
  return 0;
}

}  // namespace coxswain
