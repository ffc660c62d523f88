// Formats the result of PreviewDocuments for people and for programs.
#ifndef COXSWAIN_CONTROLLER_DATA_LOOK_PREVIEW_TEXT_H_
#define COXSWAIN_CONTROLLER_DATA_LOOK_PREVIEW_TEXT_H_

#include <string>
#include <vector>

#include "controller/data/look/preview.h"

namespace coxswain::data {

struct PreviewForm {
  bool ids = false;    // each token as "text(label, id)" in place of the text
  bool color = false;  // targets green, the rest grey
};

// For each document: its side of a preference, the text with its targets between ⟦ and ⟧, the field
// of each part, and the text that is left out. Then the warnings.
std::string PreviewText(const std::vector<PreviewDocument>& documents, PreviewForm form);

// {"documents": [{path, line, role, rule, note, notes, unwritten, parts: [{field, text}], tokens,
// targets, input_ids, labels, text}], "warnings": []}
std::string PreviewJson(const std::vector<PreviewDocument>& documents);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_LOOK_PREVIEW_TEXT_H_
