// A token's bytes as printable text.
#ifndef COXSWAIN_CONTROLLER_DATA_ESCAPE_TOKEN_H_
#define COXSWAIN_CONTROLLER_DATA_ESCAPE_TOKEN_H_

#include <string>
#include <string_view>

namespace coxswain::data {

// Valid UTF-8 stays unchanged, except control characters ("\n", "\t", "\r", "\x1b") and backslashes
// ("\\"). Other bytes, such as a part of a character, become "\xE2".
std::string EscapeToken(std::string_view bytes);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_ESCAPE_TOKEN_H_
