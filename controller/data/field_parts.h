// Which field of a record each stretch of its rendered texts came from.
#ifndef COXSWAIN_CONTROLLER_DATA_FIELD_PARTS_H_
#define COXSWAIN_CONTROLLER_DATA_FIELD_PARTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "controller/data/readers/record_parser.h"
#include "controller/data/templates/record_renderer.h"

namespace coxswain::data {

struct FieldPart {
  std::string field;  // "output", "messages[1].content"; empty: the template's own
  std::string text;
};

struct RecordParts {
  std::vector<std::vector<FieldPart>> texts;  // of each rendered document: all of it, in order
  std::vector<std::string> unwritten;         // fields that hold text which stands in none of them
};

// Told by rendering the record again with other words in one field at a time: what changes came
// from that field. A field that decides how the others are written (a role, the JSON text of tools)
// is told nothing of, nor are those beyond the first hundred. Empty where the record is bad, or is
// tokens. `renderer` may be null: records are tokens.
RecordParts PartsOfRecord(std::string_view json, RecordParser* parser,
                          const RecordRenderer& renderer);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_FIELD_PARTS_H_
