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

// Breaks every marker in the strings of a record by a noncharacter behind its first byte, which a
// template carries along; Clean takes it out of the text and tells where it was: tokenised in two
// parts there, the marker is no token.
class ContentGuard {
 public:
  // Changes `record` where it holds one of the markers. An empty guard changes nothing.
  ContentGuard(const std::vector<std::string>& markers, ChatRecord* record);

  bool empty() const { return sentinel_.empty(); }
  // Takes the noncharacters out of a rendering and moves the ranges of its bytes along. Returns the
  // bytes before which the text is to be cut, in order.
  std::vector<size_t> Clean(std::string* text, std::vector<ByteRange>* ranges) const;

 private:
  size_t FindMarker(std::string_view text) const;  // npos: there is none
  bool Holds(const jinja::Value& value) const;
  jinja::Value Broken(const jinja::Value& value) const;
  std::string BrokenText(std::string_view text) const;

  const std::vector<std::string>* const markers_;  // none is empty
  std::string firsts_;                             // bytes with which markers begin
  std::string sentinel_;                           // empty: nothing was found
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_CONTENT_GUARD_H_
