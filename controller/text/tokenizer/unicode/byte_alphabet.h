// The byte alphabet of byte-level BPE: each byte is written as one printable character.
// Source: GPT-2 encoder.py bytes_to_unicode. Bytes 21-7E, A1-AC, AE-FF (hex) stand for themselves;
// the other 68, ascending, are U+0100 upwards (space is U+0120, line feed U+010A).
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_BYTE_ALPHABET_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain::data {

// The character of `byte`, as UTF-8.
std::string ByteToCharacter(uint8_t byte);

// The bytes that `token` stands for; nullopt when a character is not in the alphabet. `token` must
// be valid UTF-8.
std::optional<std::string> TokenToBytes(std::string_view token);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_UNICODE_BYTE_ALPHABET_H_
