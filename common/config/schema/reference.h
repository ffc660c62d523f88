// The reference page of the job schema.
#ifndef COXSWAIN_COMMON_CONFIG_SCHEMA_REFERENCE_H_
#define COXSWAIN_COMMON_CONFIG_SCHEMA_REFERENCE_H_

#include <string>

namespace coxswain::config {

// The reference page (Markdown) generated from the schema table.
std::string SchemaReference();

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SCHEMA_REFERENCE_H_
