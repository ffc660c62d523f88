// Describes text in another encoding than UTF-8.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_BYTES_NOT_UTF8_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_BYTES_NOT_UTF8_H_

#include <string>
#include <string_view>

namespace coxswain::data {

// `not UTF-8 at byte 0xE9 behind "caf", which is "é" in Latin-1; ...`, with the command that
// converts a file. Empty: `text` is UTF-8.
std::string NotUtf8Text(std::string_view text);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_BYTES_NOT_UTF8_H_
