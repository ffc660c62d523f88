// Formats prompts and answers, which may have several lines, for people.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_ANSWER_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_ANSWER_TEXT_H_

#include <string>

namespace coxswain::cli {

// `heading` indented by four columns, and below it each line of `text` indented by six.
std::string AnswerText(const std::string& heading, const std::string& text);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_ANSWER_TEXT_H_
