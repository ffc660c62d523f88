// Prompts and answers, which have lines of their own, as text for people.
#ifndef COXSWAIN_CONTROLLER_CLI_ANSWER_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_ANSWER_TEXT_H_

#include <string>

namespace coxswain::cli {

// `heading` four columns in, and each line of `text` below it, six columns in.
std::string AnswerText(const std::string& heading, const std::string& text);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_ANSWER_TEXT_H_
