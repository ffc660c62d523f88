#include "controller/text/templates/named_templates.h"

#include "absl/strings/str_cat.h"

namespace coxswain::data {

const std::string* NamedTemplate(std::string_view name) {
  const auto found = NamedTemplateFiles().find(absl::StrCat(std::string(name), ".jinja"));
  return found == NamedTemplateFiles().end() ? nullptr : &found->second;
}

std::vector<std::string_view> TokensOfNamedTemplate(std::string_view name) {
  if (name == "chatml") return {"<|im_start|>", "<|im_end|>"};
  if (name == "llama3") {
    return {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  }
  if (name == "mistral") return {"<s>", "[INST]", "[/INST]", "</s>"};
  if (name == "gemma") return {"<bos>", "<start_of_turn>", "<end_of_turn>"};
  return {};
}

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
