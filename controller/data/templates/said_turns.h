// A conversation in which each answer stands as it was said.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_SAID_TURNS_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_SAID_TURNS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/data/readers/record.h"
#include "controller/data/templates/conversation_template.h"

namespace coxswain::data {

// A turn that is to be trained, in the rendering of the messages up to it.
struct SaidTurn {
  size_t index = 0;     // of its message
  std::string through;  // that rendering
  size_t begin = 0;     // where the turn's targets begin in it
};

struct SaidText {
  std::string text;
  std::vector<size_t> begins;  // of the turns, in `text`
};

// Reasoning templates write an answer anew once a question follows, without its thoughts. The text
// has each turn of `turns` as it stood when it was the last, and between two of them what the
// template writes there; what stands behind the last is that of `whole`, the rendering of all
// messages. Nothing: the template changes more than answers, or an answer is not found again in
// what it writes later.
std::optional<SaidText> JoinSaidTurns(const ConversationTemplate& chat_template,
                                      const ChatRecord& record, std::span<const Message> messages,
                                      std::span<const SaidTurn> turns, std::string_view whole);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_SAID_TURNS_H_
