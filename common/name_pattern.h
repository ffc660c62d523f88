// A regular expression over whole names, as Python's re.fullmatch.
#ifndef COXSWAIN_COMMON_NAME_PATTERN_H_
#define COXSWAIN_COMMON_NAME_PATTERN_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace coxswain {

class NamePattern {
 public:
  // True where a name of a module is a pattern and not a name.
  static bool Is(const std::string& text);
  // InvalidArgument says where it is no regular expression.
  static absl::StatusOr<NamePattern> Compile(const std::string& pattern);

  bool Matches(const std::string& name) const;

 private:
  struct Code;
  explicit NamePattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NAME_PATTERN_H_
