#include "common/foreign_keys/key_tables.h"

#include "common/foreign_keys/foreign_key.h"

namespace coxswain::foreign_keys {
namespace {

std::vector<ForeignKey> WithTrainingArguments(std::vector<ForeignKey> rows) {
  for (const ForeignKey& shared : TrainingArgumentKeys()) {
    bool own = false;
    for (const ForeignKey& row : rows) own |= row.name == shared.name;
    if (!own) rows.push_back(shared);
  }
  return rows;
}

}  // namespace

const std::vector<ForeignKey>& ForeignKeys(Tool tool) {
  static const auto* axolotl = new std::vector<ForeignKey>(AxolotlKeys());
  static const auto* factory =
      new std::vector<ForeignKey>(WithTrainingArguments(LlamaFactoryKeys()));
  static const auto* trl = new std::vector<ForeignKey>(WithTrainingArguments(TrlKeys()));
  switch (tool) {
    case Tool::kAxolotl:
      return *axolotl;
    case Tool::kLlamaFactory:
      return *factory;
    case Tool::kTrl:
      break;
  }
  return *trl;
}

std::string_view ToolName(Tool tool) {
  switch (tool) {
    case Tool::kAxolotl:
      return "Axolotl";
    case Tool::kLlamaFactory:
      return "LLaMA-Factory";
    case Tool::kTrl:
      break;
  }
  return "TRL";
}

const ForeignKey* FindForeignKey(std::string_view name) {
  const ForeignKey* without = nullptr;
  for (const Tool tool : {Tool::kAxolotl, Tool::kLlamaFactory, Tool::kTrl}) {
    const ForeignKey* row = FindForeignKey(tool, name);
    if (row != nullptr && !row->ours.empty()) return row;
    if (without == nullptr) without = row;
  }
  return without;
}

const ForeignKey* FindForeignKey(Tool tool, std::string_view name) {
  for (const ForeignKey& row : ForeignKeys(tool)) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace coxswain::foreign_keys
