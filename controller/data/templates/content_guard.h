// Content cannot forge a turn: a special token that a record writes in its text stays text.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_CONTENT_GUARD_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_CONTENT_GUARD_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "controller/data/jinja/value.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/segment.h"

namespace coxswain::data {

// Breaks every marker in the strings of a record by noncharacters behind its first character, which
// a template carries along; Clean takes them out of the text and tells where they stood, so that no
// token is recognised across such a place.
class ContentGuard {
 public:
  // Changes `record` where it holds one of the markers. An empty guard changes nothing.
  ContentGuard(const std::vector<std::string>& markers, ChatRecord* record);

  bool empty() const { return sentinel_.empty(); }
  // Takes the noncharacters out of a rendering and moves the ranges of its bytes along. Returns, in
  // order, the places of the text where they stood.
  std::vector<size_t> Clean(std::string* text, std::vector<ByteRange>* ranges) const;

 private:
  ByteRange FindMarker(std::string_view text) const;  // empty, at the end: there is none
  bool HoldsMarker(std::string_view text) const;
  jinja::Value Broken(const jinja::Value& value) const;
  std::string BrokenText(std::string_view text) const;

  const std::vector<std::string>* const markers_;  // none is empty
  std::string firsts_;                             // bytes with which markers begin
  std::string sentinel_;                           // not in the record; empty: nothing was found
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_CONTENT_GUARD_H_
