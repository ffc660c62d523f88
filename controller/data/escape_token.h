// A token's bytes as printable text.
#ifndef COXSWAIN_CONTROLLER_DATA_ESCAPE_TOKEN_H_
#define COXSWAIN_CONTROLLER_DATA_ESCAPE_TOKEN_H_

#include <string>
#include <string_view>

namespace coxswain::data {

// Valid UTF-8 as it is, except control characters ("\n", "\t", "\r", "\x1b") and backslashes
// ("\\"); bytes that are not UTF-8, such as a part of a character, as "\xE2".
std::string EscapeToken(std::string_view bytes);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_ESCAPE_TOKEN_H_
