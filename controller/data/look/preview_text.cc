#include "controller/data/look/preview_text.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "controller/data/escape_token.h"
#include "controller/data/findings.h"

namespace coxswain::data {
namespace {

constexpr int kIgnoredLabel = -100;
constexpr char kGreen[] = "\x1b[32m", kGrey[] = "\x1b[90m", kPlain[] = "\x1b[0m";
constexpr size_t kMostPartBytes = 200;

std::string Painted(const std::string& text, bool target, bool color) {
  return color ? absl::StrCat(target ? kGreen : kGrey, text, kPlain) : text;
}

void AppendTokens(const PreviewDocument& document, bool color, std::string* out) {
  bool line_begins = true;
  for (const PreviewToken& token : document.tokens) {
    if (!line_begins) *out += ' ';
    const std::string text =
        absl::StrCat(token.text, "(", token.target ? token.id : kIgnoredLabel, ", ", token.id, ")");
    *out += Painted(text, token.target, color);
    line_begins = token.text.ends_with("\\n");
    if (line_begins) *out += '\n';
  }
  if (!line_begins) *out += '\n';
}

// A line feed of the text is "\n" at the end of a line.
std::string InLines(std::string_view escaped) {
  std::string out;
  for (size_t i = 0; i < escaped.size(); ++i) {
    out += escaped[i];
    if (escaped[i] != '\\' || i + 1 == escaped.size()) continue;
    out += escaped[++i];
    if (escaped[i] == 'n') out += '\n';
  }
  return out;
}

void AppendRuns(const PreviewDocument& document, bool color, std::string* out) {
  for (const PreviewRun& run : document.runs) {
    const std::string text = InLines(run.text);
    *out += Painted(run.target ? absl::StrCat("⟦", text, "⟧") : text, run.target, color);
  }
  const bool open = !document.runs.empty() &&
                    (document.runs.back().target || !document.runs.back().text.ends_with("\\n"));
  if (open) *out += '\n';
}

void AppendParts(const PreviewDocument& document, std::string* out) {
  size_t width = 0;
  for (const FieldPart& part : document.parts) width = std::max(width, part.field.size());
  for (const FieldPart& part : document.parts) {
    const std::string field = part.field.empty() ? "-" : OneLine(part.field);
    const std::string pad(width > field.size() ? width - field.size() : 0, ' ');
    absl::StrAppend(out, "  ", field, pad, "  ", CleanText(EscapeToken(part.text), kMostPartBytes),
                    "\n");
  }
}

}  // namespace

std::string PreviewText(const std::vector<PreviewDocument>& documents, PreviewForm form) {
  std::string out;
  for (const PreviewDocument& document : documents) {
    absl::StrAppend(&out, document.path, ":", document.line, ": ", document.role,
                    document.role.empty() ? "" : ": ", OneLine(document.value),
                    document.value.empty() ? "" : ": ", document.tokens.size(), " tokens, ",
                    CountTargets(document), " targets");
    if (!document.rule.empty()) absl::StrAppend(&out, ", ", document.rule);
    if (!document.note.empty()) absl::StrAppend(&out, "; ", document.note);
    const std::string notes = NotesText(document.notes);
    if (!notes.empty()) absl::StrAppend(&out, "; ", notes);
    for (const std::string& field : document.unwritten) {
      absl::StrAppend(&out, "; not in the text: ", OneLine(field));
    }
    out += '\n';
    if (form.ids) {
      AppendTokens(document, form.color, &out);
    } else {
      AppendRuns(document, form.color, &out);
    }
    AppendParts(document, &out);
    out += '\n';
  }
  for (const std::string& warning : TargetWarnings(documents)) {
    absl::StrAppend(&out, "warning: ", warning, "\n");
  }
  return out;
}

std::string PreviewJson(const std::vector<PreviewDocument>& documents) {
  nlohmann::json all = nlohmann::json::array();
  for (const PreviewDocument& document : documents) {
    nlohmann::json ids = nlohmann::json::array(), labels = ids, text = ids, parts = ids;
    for (const PreviewToken& token : document.tokens) {
      ids.push_back(token.id);
      labels.push_back(token.target ? token.id : kIgnoredLabel);
      text.push_back(token.text);
    }
    for (const FieldPart& part : document.parts) {
      parts.push_back({{"field", part.field}, {"text", part.text}});
    }
    all.push_back({{"path", document.path},
                   {"line", document.line},
                   {"role", document.role},
                   {"value", document.value},
                   {"rule", document.rule},
                   {"note", document.note},
                   {"notes", NotesText(document.notes)},
                   {"unwritten", document.unwritten},
                   {"parts", parts},
                   {"tokens", document.tokens.size()},
                   {"targets", CountTargets(document)},
                   {"input_ids", ids},
                   {"labels", labels},
                   {"text", text}});
  }
  const nlohmann::json page = {{"documents", all}, {"warnings", TargetWarnings(documents)}};
  return page.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace coxswain::data
