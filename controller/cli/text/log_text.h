// Text of several lines for people: log lines, prompts and answers.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_LOG_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_LOG_TEXT_H_

#include <string>

#include "coxswain/v1/common.pb.h"

namespace coxswain::cli {

// Formats log lines for people.

// "2026-01-02T03:04:05.678Z  rank 0  info  message  key=value": the JSON line without its quotes. A
// line that is no JSON object is shown unchanged.
std::string LogText(const v1::LogLine& line);

// Formats prompts and answers, which may have several lines, for people.

// `heading` indented by four columns, and below it each line of `text` indented by six.
std::string AnswerText(const std::string& heading, const std::string& text);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_LOG_TEXT_H_
