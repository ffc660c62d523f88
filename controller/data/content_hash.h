// The name of prepared data in the cache: a hash of everything that its tokens depend on.
#ifndef COXSWAIN_CONTROLLER_DATA_CONTENT_HASH_H_
#define COXSWAIN_CONTROLLER_DATA_CONTENT_HASH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/cancelled.h"

namespace coxswain::data {

// SHA-256, lower-case hex, of the contents of the dataset files (not their names), the tokenizer's
// fingerprint, the name of a named chat template or the text of another, the tokens `ends` with
// which the model ends its turns (empty: no conversation is rendered), every option that changes
// tokens or masks, and the rules of the job. A job resumes under the name that it began with: a key
// that came later is described only where it is not what jobs did before it. Reads the files, in
// blocks between which it asks `cancelled`.
absl::StatusOr<std::string> ContentHash(const config::JobSpec& job,
                                        const std::string& tokenizer_fingerprint,
                                        const std::string& chat_template,
                                        const std::vector<std::string>& ends,
                                        const Cancelled& cancelled);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_CONTENT_HASH_H_
