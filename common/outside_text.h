// Text that this program did not make (file contents, names on disks, messages of other processes
// and libraries) as something every message, log line and terminal takes.
#ifndef COXSWAIN_COMMON_OUTSIDE_TEXT_H_
#define COXSWAIN_COMMON_OUTSIDE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace coxswain {

// An error message, which may quote a file, has at most so many bytes.
inline constexpr size_t kMostMessageBytes = 16 << 10;
// A name of a host, a device or a worker's address has at most so many.
inline constexpr size_t kMostNameBytes = 256;

// UTF-8 is what RFC 3629 and protobuf's strings take it to be: no overlong form, no surrogate, at
// most U+10FFFF.
bool IsUtf8(std::string_view text);
size_t Utf8Prefix(std::string_view text);  // bytes before the first that is no UTF-8

// Bytes at the end of `text`, 0 to 3, that may begin a character whose other bytes are to come.
size_t CutCharacterBytes(std::string_view text);

// Appends `text` as valid UTF-8. Bytes that are no UTF-8 and control characters but line feed and
// tab become \xNN, DEL, those of C1 (U+0080 to U+009F) and those that turn the direction of text
// \uNNNN.
void AppendClean(std::string_view text, std::string* out);

// What AppendClean appends, of at most `most_bytes` (at least 64); of what is longer the middle
// goes. Clean short text comes back as it is, and so does any result.
std::string CleanText(std::string_view text, size_t most_bytes = kMostMessageBytes);

// CleanText on one line: line feeds and tabs become \n and \t. It may be twice as long.
std::string OneLine(std::string_view text, size_t most_bytes = kMostMessageBytes);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_OUTSIDE_TEXT_H_
