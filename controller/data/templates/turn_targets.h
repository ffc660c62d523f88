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
  int rewritten = 0;  // turns that were to be trained, but that the template writes anew later on
};

// The conversation as one text, or under train_on: split one for each trained turn, up to that
// turn. A turn's range is what {% generation %} marks, where the template marks every assistant
// turn, and else what the turn adds to the rendering of the messages before it, less the white
// space behind its last special token; its header is none of it. InvalidArgument, without path and
// line: the template refuses, or writes the turns that are to be trained anew so that none can be
// found.
absl::StatusOr<std::vector<MarkedText>> FindTargets(const ConversationTemplate& chat_template,
                                                    const TargetPolicy& policy,
                                                    const ChatRecord& record);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_TARGETS_H_
