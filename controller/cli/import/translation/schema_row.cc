#include "controller/cli/import/translation/schema_row.h"

namespace coxswain::job_import {

const config::Key* SchemaRow(const std::string& path) {
  std::string row = path;
  const size_t open = row.find('['), close = row.find(']');
  if (open != std::string::npos && close != std::string::npos) {
    row = row.substr(0, open) + "[]" + row.substr(close + 1);
  }
  const std::string test = "spec.test_datasets[]";
  if (row.rfind(test, 0) == 0) row = "spec.datasets[]" + row.substr(test.size());
  return config::FindKey(row);
}

}  // namespace coxswain::job_import
