// A job that was accepted before, perhaps by an earlier release, back from what was resolved then.
#ifndef COXSWAIN_COMMON_CONFIG_PARSER_STORED_JOB_H_
#define COXSWAIN_COMMON_CONFIG_PARSER_STORED_JOB_H_

#include <string>

#include "common/config/parser/job_parser.h"

namespace coxswain::config {

// Reads ParsedJob::effective_json of the release that accepted the job, which holds every key with
// the default of that time. What was accepted stays accepted: ranges, exclusive keys and rules are
// not judged again, and no later default replaces a value. A key that the row lacks is newer than
// the job, which gets what jobs did before it (Key::before) or else its default. Only what cannot
// be understood is an error: a word, type or unsupported value that this release does not know, or
// a key that it does not know and `yaml` sets.
//
// Resources that the row still leaves to be chosen become `chosen`, and that choice is judged by
// the rules. A row without a resolved job is read as ParseJob reads `yaml` and `chosen`.
ParsedJob ReadStoredJob(const std::string& effective_json, const std::string& yaml,
                        const std::string& base_dir, const ChosenResources& chosen = {});

// `effective_json` of a stored job, which is an object, with spec.data_rules as this release has
// them: for a job none of whose records has become tokens yet.
std::string WithTodaysDataRules(const std::string& effective_json);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_PARSER_STORED_JOB_H_
