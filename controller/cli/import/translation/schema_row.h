// The schema's row of a place in a job.
#ifndef COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_SCHEMA_ROW_H_
#define COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_SCHEMA_ROW_H_

#include <string>

#include "common/config/schema/schema.h"

namespace coxswain::job_import {

// "spec.test_datasets[1].format" gives the row "spec.datasets[].format"; null: the schema has none.
const config::Key* SchemaRow(const std::string& path);

}  // namespace coxswain::job_import

#endif  // COXSWAIN_CONTROLLER_CLI_IMPORT_TRANSLATION_SCHEMA_ROW_H_
