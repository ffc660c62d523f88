// Finds the bytes of a rendered conversation that are targets.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_TARGETS_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_TARGETS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/conversation_template.h"
#include "controller/text/templates/segment.h"
#include "controller/text/templates/turn_counts.h"

namespace coxswain::data {

struct TargetPolicy {
  // Messages of these roles are targets, unless a message says otherwise.
  std::vector<std::string> roles;
  config::TrainOn train_on = config::TrainOn::kAll;
  config::TrainOnEos train_on_eos = config::TrainOnEos::kTurn;
};

// The rule that found the targets: the format itself (an output, a completion), the template's
// marks, the text that each turn adds, or that all of a conversation is read.
enum class TargetRule { kFormat, kMarks, kPrefixes, kWhole };

struct MarkedText {
  std::string text;
  std::vector<ByteRange> targets;  // in order, disjoint, not empty
  TargetRule rule = TargetRule::kMarks;
  TurnCounts turns;
};

// The conversation as one text; under train_on: split one text per trained turn, up to that turn.
// If the template marks every assistant turn, a turn's range is what {% generation %} marks. Else
// it is the text that the turn adds (turn_begin.h), without the white space after its last special
// token. The range always includes the turn's end-of-turn token: also when the template marks less,
// when the last turn ends with another token, and when the marker of the next turn is a token with
// which the model ends. If the template rewrites earlier answers, the text has each trained answer
// in its original words (said_turns.h). InvalidArgument, without path and line: the template
// refuses, writes nothing of a trained turn, or rewrites all trained turns so that none can be
// found.
absl::StatusOr<std::vector<MarkedText>> FindTargets(const ConversationTemplate& chat_template,
                                                    const TargetPolicy& policy,
                                                    const ChatRecord& record);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_TARGETS_H_
