// Characters that have several characters in upper or title case.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_SPECIAL_CASE_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_SPECIAL_CASE_H_

namespace coxswain::data::jinja {

struct SpecialCase {
  char32_t code_point;
  const char* upper;  // UTF-8
  const char* title;
};

// nullptr: the character has a simple mapping.
const SpecialCase* FindSpecialCase(char32_t code_point);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_VALUES_SPECIAL_CASE_H_
