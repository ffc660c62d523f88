// ~ and environment variables in the paths of a job file.
#ifndef COXSWAIN_COMMON_CONFIG_PARSER_EXPAND_PATHS_H_
#define COXSWAIN_COMMON_CONFIG_PARSER_EXPAND_PATHS_H_

#include <string>

namespace coxswain::config {

// `text` with a leading ~ or ~/ and every $NAME and ${NAME} replaced as this process's environment
// has them. Unchanged where one of them is not set, and for other forms (~ann, ${a:b}):
// ResolveLocalPath refuses those. Also where a file of that very name lies below `base_dir`.
std::string ExpandPath(const std::string& text, const std::string& base_dir);

// The same in the value of every path key of `yaml`: for the user's own program, before a job
// leaves it. Every value stays on its line; a text without such a value comes back as it is.
std::string ExpandPaths(const std::string& yaml, const std::string& base_dir);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_PARSER_EXPAND_PATHS_H_
