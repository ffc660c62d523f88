// The secret by which the Hub knows its user.
#ifndef COXSWAIN_COMMON_HUB_API_TOKEN_H_
#define COXSWAIN_COMMON_HUB_API_TOKEN_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::hub {

// Nothing prints a token: it becomes text in the header of a request, and only HttpCalls, which
// knows to which host that goes, asks for the header.
class Token {
 public:
  Token() = default;  // none
  // `text` without the white space around it; none where nothing is left. InvalidArgument, without
  // a word of it: it holds what no header may hold. `from` names where it came from.
  static absl::StatusOr<Token> Parse(std::string_view text, const std::string& from);

  bool empty() const { return secret_.empty(); }
  std::string AuthorizationHeader() const;  // "Authorization: Bearer ..."; not for an empty one
  // `text` with every occurrence of the token replaced: a server may echo what it was sent.
  std::string RemovedFrom(std::string_view text) const;

 private:
  explicit Token(std::string_view secret) : secret_(secret) {}
  std::string secret_;
};

std::ostream& operator<<(std::ostream& out, const Token& token) = delete;

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_TOKEN_H_
