#include "controller/text/jinja/values/cycler.h"

namespace coxswain::data::jinja {
namespace {

const Builtin kNext = {"next", [](Runtime&, const Value& self, Arguments&) {
                         return static_cast<Cycler*>(self.object())->Next();
                       }};
const Builtin kReset = {"reset", [](Runtime&, const Value& self, Arguments&) {
                          static_cast<Cycler*>(self.object())->Reset();
                          return Value::None();
                        }};

}  // namespace

Value Cycler::Next() {
  const std::vector<Value>& items = items_.list().items;
  Value item = items[at_];
  at_ = (at_ + 1) % items.size();
  return item;
}

Value Cycler::Attribute(Runtime& runtime, const Value& self, std::string_view name) const {
  if (name == "current") return items_.list().items[at_];
  const Builtin* method = name == "next" ? &kNext : name == "reset" ? &kReset : nullptr;
  if (method == nullptr) return Value();
  return runtime.New(Kind::kFunction, std::make_unique<Function>(self, method));
}

}  // namespace coxswain::data::jinja
