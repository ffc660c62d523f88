#include "controller/text/jinja/syntax/builtins.h"

#include <initializer_list>

#include "absl/container/flat_hash_map.h"

namespace coxswain::data::jinja {
namespace {

using Table = absl::flat_hash_map<std::string, const Builtin*>;

Table MakeTable(std::initializer_list<std::span<const Builtin>> parts) {
  Table table;
  for (const auto part : parts) {
    for (const Builtin& builtin : part) table.emplace(std::string(builtin.name), &builtin);
  }
  return table;
}

const Builtin* FindIn(const Table& table, std::string_view name) {
  const auto found = table.find(std::string(name));
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  static const Table* const table =
      new Table(MakeTable({TextFilters(), SequenceFilters(), SelectionFilters(), NumberFilters()}));
  return FindIn(*table, name);
}

const Builtin* FindTest(std::string_view name) {
  static const Table* const table = new Table(MakeTable({ValueTests()}));
  return FindIn(*table, name);
}

const Builtin* FindGlobal(std::string_view name) {
  static const Table* const table = new Table(MakeTable({Globals()}));
  return FindIn(*table, name);
}

AttributeMethods FindMethods(std::string_view name) {
  static const Table* const strings = new Table(MakeTable({StringMethods(), StringTestMethods()}));
  static const Table* const lists = new Table(MakeTable({ListMethods()}));
  static const Table* const tuples = new Table(MakeTable({TupleMethods()}));
  static const Table* const dicts = new Table(MakeTable({DictMethods()}));
  return {FindIn(*strings, name), FindIn(*lists, name), FindIn(*tuples, name),
          FindIn(*dicts, name)};
}

std::string_view WhyNoFilter(std::string_view name) {
  if (name == "random") return "a rendering is a function of its variables";
  if (name == "pprint" || name == "urlize" || name == "xmlattr" || name == "wordwrap") {
    return "no chat template is known to use it";
  }
  return {};
}

}  // namespace coxswain::data::jinja
