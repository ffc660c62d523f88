// Special tokens at the ends of a rendered turn.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_END_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_END_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::data {

using Markers = std::vector<std::string>;  // special tokens as text, none empty

// The longest special token with which the text ends, or begins; empty: with none.
std::string_view TokenAtEnd(std::string_view text, const Markers& markers);
std::string_view TokenAtBegin(std::string_view text, const Markers& markers);

// Bytes of a turn without the white space behind its last special token; all of them where it ends
// with none.
size_t EndOfLastToken(std::string_view turn, const Markers& markers);

// Bytes before the special tokens and white space with which a text ends.
size_t WithoutTail(std::string_view text, const Markers& markers);

// Whether the text is nothing but special tokens and white space, as some templates write behind
// the last turn alone.
bool IsTail(std::string_view text, const Markers& markers);

// Bytes of the end-of-turn token and of the white space behind it; 0: the turn ends with none.
size_t TailOfTurn(std::string_view turn, const Markers& markers);

// Bytes that two texts begin with, in whole characters of `a`.
size_t CommonPrefix(std::string_view a, std::string_view b);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_END_H_
