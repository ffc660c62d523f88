// Builds a conversation in which each answer has its original words.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_SAID_TURNS_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_SAID_TURNS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/text/records/record.h"
#include "controller/text/templates/conversation_template.h"

namespace coxswain::data {

// A turn to be trained, in the rendering of the messages up to it.
struct SaidTurn {
  size_t index = 0;     // index of its message
  std::string through;  // the rendering of the messages up to the turn
  size_t begin = 0;     // where the turn's targets begin in it
};

struct SaidText {
  std::string text;
  std::vector<size_t> begins;  // start of each turn, in `text`
};

// Templates of reasoning models rewrite an answer without its thoughts once a question follows. The
// result has each turn of `turns` as rendered when it was the last message. Between two turns it
// has the template's text. After the last turn it continues as `whole`, the rendering of all
// messages. Nothing: the template changes more than answers, or an answer cannot be found again in
// a later rendering.
std::optional<SaidText> JoinSaidTurns(const ConversationTemplate& chat_template,
                                      const ChatRecord& record, std::span<const Message> messages,
                                      std::span<const SaidTurn> turns, std::string_view whole);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_SAID_TURNS_H_
