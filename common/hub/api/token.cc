#include "common/hub/api/token.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace coxswain::hub {

absl::StatusOr<Token> Token::Parse(std::string_view text, const std::string& from) {
  std::string secret(text);
  absl::StripAsciiWhitespace(&secret);
  const bool printable =
      std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (printable) return Token(secret);
  return absl::InvalidArgumentError(
      absl::StrCat(from,
                   " holds a space, a control character or a letter outside ASCII: a token "
                   "of the Hub is one word, as https://huggingface.co/settings/tokens "
                   "shows it"));
}

std::string Token::AuthorizationHeader() const { return "Authorization: Bearer " + secret_; }

std::string Token::RemovedFrom(std::string_view text) const {
  if (secret_.empty()) return std::string(text);
  return absl::StrReplaceAll(std::string(text), {{secret_, "[token]"}});
}

}  // namespace coxswain::hub
