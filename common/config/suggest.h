// Did-you-mean.
#ifndef COXSWAIN_COMMON_CONFIG_SUGGEST_H_
#define COXSWAIN_COMMON_CONFIG_SUGGEST_H_

#include <string>
#include <string_view>
#include <vector>

namespace coxswain::config {

// Edit distance with transposition of neighbours (optimal string alignment).
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word` when it is near enough to be a typing mistake (at most a third of
// the letters, at least one), else empty. Of equally near ones the first.
std::string_view Suggest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_SUGGEST_H_
