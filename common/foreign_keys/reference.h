// The reference page of the tables.
#ifndef COXSWAIN_COMMON_FOREIGN_KEYS_REFERENCE_H_
#define COXSWAIN_COMMON_FOREIGN_KEYS_REFERENCE_H_

#include <string>

namespace coxswain::foreign_keys {

// Markdown: a table a tool, a line a key.
std::string ForeignKeyReference();

}  // namespace coxswain::foreign_keys

#endif  // COXSWAIN_COMMON_FOREIGN_KEYS_REFERENCE_H_
