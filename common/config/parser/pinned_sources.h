// Where the sources of an accepted job are, in its effective JSON.
#ifndef COXSWAIN_COMMON_CONFIG_PARSER_PINNED_SOURCES_H_
#define COXSWAIN_COMMON_CONFIG_PARSER_PINNED_SOURCES_H_

#include "common/config/parser/job_parser.h"

namespace coxswain::config {

// Writes paths and revisions of the sources that come from the Hub or from a URL, as job->spec has
// them, into job->effective_json.
void WriteSources(ParsedJob* job);

// Gives `job` the places of `pinned`, which is of the same file: what was asked for once is not
// asked for again.
void CopySources(const JobSpec& pinned, ParsedJob* job);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_PARSER_PINNED_SOURCES_H_
