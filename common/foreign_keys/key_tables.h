// The tables of all tools, and keys in them.
#ifndef COXSWAIN_COMMON_FOREIGN_KEYS_KEY_TABLES_H_
#define COXSWAIN_COMMON_FOREIGN_KEYS_KEY_TABLES_H_

#include <string_view>
#include <vector>

#include "common/foreign_keys/foreign_key.h"

namespace coxswain::foreign_keys {

// Rows by name within a tool. Keys of transformers' TrainingArguments are in the tables of both
// tools that take them.
const std::vector<ForeignKey>& ForeignKeys(Tool tool);

// "Axolotl", "LLaMA-Factory", "TRL".
std::string_view ToolName(Tool tool);

// The row of a key, of whichever tool has one; null: none. Rows that lead to a key of ours come
// before rows that do not.
const ForeignKey* FindForeignKey(std::string_view name);

// The row of a key of this tool; null: none.
const ForeignKey* FindForeignKey(Tool tool, std::string_view name);

}  // namespace coxswain::foreign_keys

#endif  // COXSWAIN_COMMON_FOREIGN_KEYS_KEY_TABLES_H_
