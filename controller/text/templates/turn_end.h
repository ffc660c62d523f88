// Finds special tokens at the ends of a rendered turn.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_END_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_END_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::data {

using Markers = std::vector<std::string>;  // special tokens as text, none empty

// The longest special token with which the text ends, or begins; empty: with none.
std::string_view TokenAtEnd(std::string_view text, const Markers& markers);
std::string_view TokenAtBegin(std::string_view text, const Markers& markers);

// Bytes of a turn without the white space after its last special token; all bytes when it does not
// end with a special token.
size_t EndOfLastToken(std::string_view turn, const Markers& markers);

// Bytes of a text without the special tokens and white space at its end.
size_t WithoutTail(std::string_view text, const Markers& markers);

// True when the text is only special tokens and white space. Some templates write such text after
// the last turn only.
bool IsTail(std::string_view text, const Markers& markers);

// Bytes of the end-of-turn token and the white space after it; 0: the turn has no such end.
size_t TailOfTurn(std::string_view turn, const Markers& markers);

// Bytes of the common prefix of two texts, in whole characters of `a`.
size_t CommonPrefix(std::string_view a, std::string_view b);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_END_H_
