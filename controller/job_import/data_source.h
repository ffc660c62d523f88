// What the three tools say alike about a source of data.
#ifndef COXSWAIN_CONTROLLER_JOB_IMPORT_DATA_SOURCE_H_
#define COXSWAIN_CONTROLLER_JOB_IMPORT_DATA_SOURCE_H_

#include <string>
#include <string_view>

#include "controller/job_import/translation.h"

namespace coxswain::job_import {

// Writes the path of a source; a hub name becomes the folder of its download, which the report
// tells.
void SetSourcePath(Translation* t, const Scope& scope, std::string_view key,
                   const std::string& name, const std::string& revision,
                   const std::string& base_dir);

// Writes a split as `datasets` spells it: "train", "train[:100]".
void SetSplit(Translation* t, const Scope& scope, std::string_view key, const std::string& split);

// Writes a configuration of a hub data set, which by the hub's convention is a folder of it.
void SetSubset(Translation* t, const Scope& scope, std::string_view key, const std::string& subset);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_JOB_IMPORT_DATA_SOURCE_H_
