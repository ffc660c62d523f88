// Which bytes of a rendered conversation are targets.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_TARGETS_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_TARGETS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/conversation_template.h"
#include "controller/data/templates/segment.h"
#include "controller/data/templates/turn_counts.h"

namespace coxswain::data {

struct TargetPolicy {
  std::vector<std::string> roles;  // whose messages are targets, unless a message says otherwise
  config::TrainOn train_on = config::TrainOn::kAll;
  config::TrainOnEos train_on_eos = config::TrainOnEos::kTurn;
};

// What found the targets: the format itself (an output, a completion), the template's marks, or
// what each turn adds.
enum class TargetRule { kFormat, kMarks, kPrefixes };

struct MarkedText {
  std::string text;
  std::vector<ByteRange> targets;  // in order, disjoint, not empty
  TargetRule rule = TargetRule::kMarks;
  TurnCounts turns;
};

// The conversation as one text, or under train_on: split one for each trained turn, up to that
// turn. A turn's range is what {% generation %} marks, where the template marks every assistant
// turn, and else what the turn adds to what stands before it (turn_begin.h), less the white space
// behind its last special token. It reaches to the turn's end-of-turn token, also where the
// template marks less, where a turn that is the last ends with another, and where the marker of the
// next turn is one with which the model ends. Where the template writes earlier answers anew, the
// text has each trained answer as it was said (said_turns.h). InvalidArgument, without path and
// line: the template refuses, writes nothing of a trained turn, or writes the turns that are to be
// trained anew so that none can be found.
absl::StatusOr<std::vector<MarkedText>> FindTargets(const ConversationTemplate& chat_template,
                                                    const TargetPolicy& policy,
                                                    const ChatRecord& record);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_TARGETS_H_
