// Where a source of an Axolotl configuration lies.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_AXOLOTL_PLACE_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_AXOLOTL_PLACE_H_

#include <string>
#include <vector>

#include "controller/cli/import/translation/translation.h"

namespace coxswain::job_import {

// Sources with one place each: a source with a list of names becomes one for each name, and a
// source of a builder of files (`path: json`) one for each of its data_files.
std::vector<config::Node> OnePlaceEach(const std::vector<config::Node>& sources,
                                       const std::string& base_dir);

// Writes the keys of the place of one such source: path, data_files, name, data_dir, split,
// revision.
void TranslateAxolotlPlace(Translation* t, Scope* scope, const std::string& base_dir);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_AXOLOTL_PLACE_H_
