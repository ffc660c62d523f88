#include "controller/access/tokens.h"
#include "controller/api/operations.h"
#include "controller/api/token_message.h"

namespace coxswain::api {

void ListTokens(Context& context, const v1::ListTokensRequest& request,
                Reply<v1::ListTokensResponse> reply) {
  v1::ListTokensResponse response;
  for (const store::TokenRow& row : context.tokens->All()) {
    *response.add_tokens() = TokenMessage(row);
  }
  reply(std::move(response));
}

}  // namespace coxswain::api
