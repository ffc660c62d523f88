// A token as its operators see it: all but what lets in.
#ifndef COXSWAIN_CONTROLLER_API_TOKEN_MESSAGE_H_
#define COXSWAIN_CONTROLLER_API_TOKEN_MESSAGE_H_

#include "controller/store/store.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::api {

inline v1::Token TokenMessage(const store::TokenRow& row) {
  v1::Token token;
  token.set_id(row.id);
  token.set_user(row.user);
  token.set_role(row.role);
  token.set_created_unix_ms(row.created_unix_ms);
  token.set_expires_unix_ms(row.expires_unix_ms);
  token.set_revoked_unix_ms(row.revoked_unix_ms);
  return token;
}

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_TOKEN_MESSAGE_H_
