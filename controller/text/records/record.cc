#include "controller/text/records/record.h"

#include <nlohmann/json.hpp>

#include "controller/text/jinja/values/operators.h"

namespace coxswain::data {

Message TextMessage(const std::string& role, const std::string& text) {
  Message message;
  message.role = role;
  message.text = text;
  message.fields = *jinja::FromJson(nlohmann::ordered_json{{"role", role}, {"content", text}});
  return message;
}

}  // namespace coxswain::data
