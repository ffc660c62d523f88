// Protobuf messages as the JSON that `-o json` promises.
#ifndef COXSWAIN_COMMON_NET_MESSAGE_JSON_H_
#define COXSWAIN_COMMON_NET_MESSAGE_JSON_H_

#include <nlohmann/json.hpp>

namespace google::protobuf {
class Message;
}

namespace coxswain {

// Every field, in proto order, under its proto name, set or not: unset messages and unset optional
// fields are null; of a oneof only the one that is set. Integers are numbers, bytes lower-case hex,
// enums their name without the type's prefix. `<x>_unix_ms` becomes `<x>`, RFC 3339 in UTC or null
// for 0; `<x>_json` becomes `<x>`, the parsed value or null.
nlohmann::ordered_json MessageJson(const google::protobuf::Message& message);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_MESSAGE_JSON_H_
