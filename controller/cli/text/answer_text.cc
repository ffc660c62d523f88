#include "controller/cli/text/answer_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace coxswain::cli {

std::string AnswerText(const std::string& heading, const std::string& text) {
  std::string out = fmt::format("    {}\n", heading);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += fmt::format("      {}\n", text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace coxswain::cli
