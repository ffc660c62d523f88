// Keeps content from forging a turn: a special token in the text of a record stays text.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONTENT_GUARD_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONTENT_GUARD_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "controller/text/jinja/values/value.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/segment.h"

namespace coxswain::data {

// Breaks every marker in the strings of a record by noncharacters after its first character. A
// template copies them. Clean removes them from the rendered text and returns their places, so that
// no token is recognised across such a place.
class ContentGuard {
 public:
  // Changes `record` if it holds one of the markers. An empty guard changed nothing.
  ContentGuard(const std::vector<std::string>& markers, ChatRecord* record);

  bool empty() const { return sentinel_.empty(); }
  // Removes the noncharacters from a rendering and moves its byte ranges accordingly. Returns their
  // places in the text, in order.
  std::vector<size_t> Clean(std::string* text, std::vector<ByteRange>* ranges) const;

 private:
  ByteRange FindMarker(std::string_view text) const;  // empty and at the end: none
  bool HoldsMarker(std::string_view text) const;
  jinja::Value Broken(const jinja::Value& value) const;
  std::string BrokenText(std::string_view text) const;

  const std::vector<std::string>* const markers_;  // no marker is empty
  std::string firsts_;                             // first bytes of the markers
  // Occurs nowhere in the record; empty: no marker was found.
  std::string sentinel_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONTENT_GUARD_H_
