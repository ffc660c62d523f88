#include "worker/agent/wire/command_identity.h"

#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"

namespace coxswain::agent {

v1::CommandKind KindOf(const v1::Command& command) {
  switch (command.kind_case()) {
    case v1::Command::kTrain:
      return v1::COMMAND_KIND_TRAIN;
    case v1::Command::kEval:
      return v1::COMMAND_KIND_EVAL;
    case v1::Command::kSnapshot:
      return v1::COMMAND_KIND_SNAPSHOT;
    case v1::Command::kStop:
      return v1::COMMAND_KIND_STOP;
    case v1::Command::kGenerate:
      return v1::COMMAND_KIND_GENERATE;
    case v1::Command::kLogProbs:
      return v1::COMMAND_KIND_LOG_PROBS;
    case v1::Command::kForwardBackward:
      return v1::COMMAND_KIND_FORWARD_BACKWARD;
    case v1::Command::kUpdate:
      return v1::COMMAND_KIND_UPDATE;
    case v1::Command::kLoad:
      return v1::COMMAND_KIND_LOAD;
    case v1::Command::KIND_NOT_SET:
      break;
  }
  return v1::COMMAND_KIND_UNSPECIFIED;
}

const char* PhaseOf(const v1::Command& command) {
  switch (command.kind_case()) {
    case v1::Command::kTrain:
      return "train";
    case v1::Command::kEval:
      return "eval";
    case v1::Command::kSnapshot:
      return "snapshot";
    case v1::Command::kGenerate:
      return "generate";
    case v1::Command::kLogProbs:
      return "log_probs";
    case v1::Command::kForwardBackward:
      return "forward_backward";
    case v1::Command::kUpdate:
      return "update";
    case v1::Command::kLoad:
      return "load";
    case v1::Command::kStop:
      return "stop";
    case v1::Command::KIND_NOT_SET:
      break;
  }
  return "unknown";
}

std::string Summary(const v1::Command& command) {
  std::string phase = PhaseOf(command);
  if (command.has_train()) {
    return absl::StrCat(phase, " step ", command.train().step(), ", ",
                        command.train().bins().bin_ids_size(), " bins");
  }
  if (command.has_eval()) {
    return absl::StrCat(phase, " step ", command.eval().step(), ", ",
                        command.eval().bins().bin_ids_size(), " bins");
  }
  if (command.has_generate()) {
    return absl::StrCat(phase, " step ", command.generate().step(), ", ",
                        command.generate().tokens(), " tokens");
  }
  if (command.has_log_probs()) {
    return absl::StrCat(phase, " of ", command.log_probs().bins().bin_ids_size(), " bins");
  }
  if (command.has_forward_backward()) {
    return absl::StrCat(phase, " step ", command.forward_backward().step(), ", ",
                        command.forward_backward().bins().bin_ids_size(), " bins");
  }
  if (command.has_load()) {
    const v1::Load& load = command.load();
    return absl::StrCat(phase, " of ", load.model_dir(), load.adapter_dir(), load.checkpoint_dir());
  }
  if (command.has_update()) return absl::StrCat(phase, " step ", command.update().step());
  if (command.has_snapshot()) return absl::StrCat(phase, " step ", command.snapshot().step());
  return phase;
}

uint64_t IdentityOf(const v1::Command& command) {
  const auto of_bins = [](const v1::Bins& bins) {
    return absl::HashOf(std::vector<int64_t>(bins.bin_ids().begin(), bins.bin_ids().end()),
                        bins.micro_steps());
  };
  const auto kind = static_cast<int>(command.kind_case());
  switch (command.kind_case()) {
    case v1::Command::kTrain:
      return absl::HashOf(kind, command.train().step(), command.train().loss_denominator(),
                          command.train().learning_rate(), of_bins(command.train().bins()));
    case v1::Command::kEval:
      return absl::HashOf(kind, command.eval().step(), of_bins(command.eval().bins()));
    case v1::Command::kLogProbs:
      return absl::HashOf(kind, command.log_probs().without_adapters(),
                          command.log_probs().held_out(), of_bins(command.log_probs().bins()));
    case v1::Command::kForwardBackward:
      return absl::HashOf(
          kind, command.forward_backward().step(), command.forward_backward().loss_denominator(),
          command.forward_backward().last(), of_bins(command.forward_backward().bins()));
    case v1::Command::kUpdate:
      return absl::HashOf(kind, command.update().step(), command.update().learning_rate());
    case v1::Command::kSnapshot:
      return absl::HashOf(kind, command.snapshot().step());
    case v1::Command::kGenerate:
      return absl::HashOf(kind, command.generate().step(), command.generate().prompts_size(),
                          command.generate().tokens());
    case v1::Command::kLoad:
      return absl::HashOf(kind, command.load().model_dir(), command.load().adapter_dir(),
                          command.load().checkpoint_dir(), command.load().shake());
    default:
      return absl::HashOf(kind);
  }
}

}  // namespace coxswain::agent
