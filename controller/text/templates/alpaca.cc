#include "controller/text/templates/alpaca.h"

namespace coxswain::data {
namespace {

constexpr char kTask[] =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.";
constexpr char kTaskWithInput[] =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.";

}  // namespace

// Source of earlier turns: hiyouga/LLaMA-Factory, template "alpaca".
std::vector<Segment> RenderAlpaca(const AlpacaRecord& record, const SpecialToken& eos,
                                  bool train_history) {
  SegmentBuilder out;
  if (!record.system.empty()) {
    out.Text(record.system);
  } else {
    out.Text(record.input.empty() ? kTask : kTaskWithInput);
  }
  for (const auto& [question, answer] : record.history) {
    out.Text("\n\n### Instruction:\n");
    out.Text(question);
    out.Text("\n\n### Response:\n");
    out.Text(answer, train_history);
    out.Token(eos, train_history);
  }
  out.Text("\n\n### Instruction:\n");
  out.Text(record.instruction);
  if (!record.input.empty()) {
    out.Text("\n\n### Input:\n");
    out.Text(record.input);
  }
  out.Text("\n\n### Response:\n");
  out.Text(record.output, /*target=*/true);
  out.Token(eos, /*target=*/true);
  return out.Take();
}

std::string AlpacaPrompt(const std::string& instruction) {
  const AlpacaRecord record{.instruction = instruction, .input = {}, .output = {}};
  return RenderAlpaca(record, SpecialToken(), /*train_history=*/false).front().text;
}

}  // namespace coxswain::data
