// Words of other trainers that mean a word of ours, by our key.
#ifndef COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_VALUE_H_
#define COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_VALUE_H_

#include <string_view>

namespace coxswain::foreign_keys {

struct ForeignValue {
  std::string_view path;  // our key: "spec.train.optimizer"
  std::string_view theirs, ours;
  std::string_view reason = {};  // why it is not quite the same; mostly empty
};

// The row of a word ("spec.resources.device", "gpu" -> "cuda"); null: none known.
const ForeignValue* FindForeignValue(std::string_view path, std::string_view theirs);

}  // namespace coxswain::foreign_keys

#endif  // COXSWAIN_COMMON_FOREIGN_KEYS_FOREIGN_VALUE_H_
