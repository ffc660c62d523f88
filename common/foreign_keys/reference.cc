#include "common/foreign_keys/reference.h"

#include <string_view>

#include <fmt/format.h>

#include "common/foreign_keys/key_tables.h"

namespace coxswain::foreign_keys {
namespace {

constexpr const char* kHead = R"(# Keys of other trainers

Generated from the tables in this folder; a test keeps it current
(`foreign_key_reference > common/foreign_keys/REFERENCE.md`). `cox import` goes by it, and errors about job files
recognise the names. A default in brackets is the tool's, written where its file is silent.
)";

std::string_view FateText(Fate fate) {
  switch (fate) {
    case Fate::kCopied:
      return "copied";
    case Fate::kTranslated:
      return "translated";
    case Fate::kNoEffect:
      return "no effect";
    case Fate::kDiffers:
      return "differs";
    case Fate::kRefused:
      break;
  }
  return "refused";
}

std::string RowText(const ForeignKey& row) {
  std::string_view ours = row.ours;
  if (ours.substr(0, 5) == "spec.") ours.remove_prefix(5);
  std::string note(row.reason);
  if (!row.preset.empty()) note += fmt::format("{}({})", note.empty() ? "" : " ", row.preset);
  return fmt::format("| `{}` | {} | {} | {} |\n", row.name, FateText(row.fate),
                     ours.empty() ? "" : fmt::format("`{}`", ours), note);
}

}  // namespace

std::string ForeignKeyReference() {
  std::string text = kHead;
  for (const Tool tool : {Tool::kAxolotl, Tool::kLlamaFactory, Tool::kTrl}) {
    text += fmt::format("\n## {}\n\n| key | fate | ours | |\n|---|---|---|---|\n", ToolName(tool));
    for (const ForeignKey& row : ForeignKeys(tool)) text += RowText(row);
  }
  return text;
}

}  // namespace coxswain::foreign_keys
