// The name of prepared data in the cache: a hash of everything on which its tokens depend.
#ifndef COXSWAIN_CONTROLLER_DATA_PREPARE_CONTENT_HASH_H_
#define COXSWAIN_CONTROLLER_DATA_PREPARE_CONTENT_HASH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/early_end.h"

namespace coxswain::data {

// SHA-256, lower-case hex, of: the contents of the dataset files, not their names; the tokenizer's
// fingerprint; the name of a named chat template, or the text of another one; the tokens `ends`
// with which the model ends its turns (empty: no conversation is rendered); every option that
// changes tokens or masks; and the rules of the job. A job must resume under the name with which it
// began. Therefore a newer key is part of the hash only when it differs from the behaviour before
// the key existed. Reads the files in blocks, and asks `cancelled` between them.
absl::StatusOr<std::string> ContentHash(const config::JobSpec& job,
                                        const std::string& tokenizer_fingerprint,
                                        const std::string& chat_template,
                                        const std::vector<std::string>& ends,
                                        const Cancelled& cancelled);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREPARE_CONTENT_HASH_H_
