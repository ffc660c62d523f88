// The Stanford Alpaca prompt. Source: tatsu-lab/stanford_alpaca, train.py, PROMPT_DICT.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_ALPACA_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_ALPACA_H_

#include <string>
#include <vector>

#include "controller/text/records/record.h"
#include "controller/text/templates/segment.h"

namespace coxswain::data {

// Prompt, then output and `eos` as targets. An empty output trains EOS alone. A system text
// replaces the prompt's first lines. Earlier turns come before the question, each ended by `eos`;
// with `train_history` their answers are targets too.
std::vector<Segment> RenderAlpaca(const AlpacaRecord& record, const SpecialToken& eos,
                                  bool train_history);

// The text up to the beginning of the answer to `instruction`.
std::string AlpacaPrompt(const std::string& instruction);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_ALPACA_H_
