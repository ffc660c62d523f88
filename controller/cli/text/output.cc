#include "controller/cli/text/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <iostream>

namespace coxswain::cli {

Terminal ProcessTerminal() {
  Terminal terminal;
  terminal.out = &std::cout;
  terminal.err = &std::cerr;
  terminal.out_tty = isatty(STDOUT_FILENO) == 1;
  terminal.err_tty = isatty(STDERR_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  terminal.color = terminal.out_tty && (no_color == nullptr || *no_color == '\0');
  winsize size = {};
  const char* columns = std::getenv("COLUMNS");
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  } else if (columns != nullptr && std::atoi(columns) > 0) {
    terminal.columns = std::atoi(columns);
  }
  return terminal;
}

namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Plain when no YAML reader could take the word for anything but this string.
std::string Scalar(const Json& value) {
  if (!value.is_string()) return Dump(value, -1);
  const auto& text = value.get_ref<const std::string&>();
  bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0]));
  for (const char c : text) {
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                      c == '/' || c == '.');
  }
  for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    std::string lower;
    for (const char c : text)
      lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    plain = plain && lower != word;
  }
  return plain ? text : Dump(value, -1);
}

bool IsBlock(const Json& value) { return value.is_structured() && !value.empty(); }

void Emit(const Json& value, int indent, std::string* out) {
  const std::string margin(indent, ' ');
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      *out += margin + Scalar(key) + ":";
      if (IsBlock(child)) {
        *out += "\n";
        Emit(child, indent + (child.is_object() ? 2 : 0), out);
      } else {
        *out += " " + Scalar(child) + "\n";
      }
    }
    return;
  }
  for (const Json& child : value) {
    if (IsBlock(child)) {
      std::string block;
      Emit(child, indent + 2, &block);
      *out += margin + "- " + block.substr(indent + 2);
    } else {
      *out += margin + "- " + Scalar(child) + "\n";
    }
  }
}

}  // namespace

std::string ToYaml(const Json& value) {
  if (!IsBlock(value)) return Scalar(value) + "\n";
  std::string out;
  Emit(value, 0, &out);
  return out;
}

void PrintStructured(const Json& value, const std::string& format, std::ostream& out) {
  if (format == "yaml") {
    out << ToYaml(value);
  } else {
    out << Dump(value, 2) << "\n";
  }
}

}  // namespace coxswain::cli
