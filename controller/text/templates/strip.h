// Python's str.strip(), as `| trim` in chat templates.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_STRIP_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_STRIP_H_

#include <string_view>

namespace coxswain::data {

// `text`, valid UTF-8, without white space at both ends. White space: bidirectional type WS, B or
// S, or category Zs. Source: Python documentation, str.isspace.
std::string_view Strip(std::string_view text);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_STRIP_H_
