// What the three tools say alike about a source of data.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_DATA_SOURCE_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_DATA_SOURCE_H_

#include <string>
#include <string_view>

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

enum class SourcePlace { kLocal, kUrl, kHub };

// Writes the place of a source: Hub names and URLs as they stand, other names in LocalForm.
SourcePlace SetSourcePath(Translation* t, const Scope& scope, std::string_view key,
                          const std::string& name, const std::string& base_dir);

// Writes a split as `datasets` spells it: "train", "train[:100]".
void SetSplit(Translation* t, const Scope& scope, std::string_view key, const std::string& split);

// Writes a config of a dataset repository. In a local folder it is a folder below it, by the
// convention of the Hub.
void SetSubset(Translation* t, const Scope& scope, std::string_view key, const std::string& subset,
               SourcePlace place);

// Writes the folder of the repository in which the data lies.
void SetDataDir(Translation* t, const Scope& scope, std::string_view key, const std::string& folder,
                SourcePlace place);

// Writes the revision of a Hub name; what lies elsewhere has none.
void SetRevision(Translation* t, const Scope& scope, std::string_view key,
                 const std::string& revision, SourcePlace place);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_DATA_SOURCE_H_
