#include "controller/cli/text/clean_stream.h"

#include <algorithm>

#include "common/outside_text.h"

namespace coxswain::cli {
namespace {

std::string_view CodeOf(Draw draw) {
  switch (draw) {
    case Draw::kLineStart:
      return "\r";
    case Draw::kClearRestOfLine:
      return "\033[K";
    case Draw::kClearScreen:
      return "\033[H\033[2J";
  }
  return "";
}

void PutCode(std::ostream& out, std::string_view code) {
  if (auto* clean = dynamic_cast<CleanBuffer*>(out.rdbuf())) {
    if (!clean->Put(code)) out.setstate(std::ios::badbit);
  } else {
    out << code;
  }
}

// Bytes of the colour that `text` begins with; 0: with none.
size_t ColourBytes(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

bool CleanBuffer::Pass(size_t kept_back) {
  const std::string_view text = std::string_view(text_).substr(0, text_.size() - kept_back);
  if (text.empty()) return to_->good();
  std::string clean;
  AppendClean(text, &clean);
  text_.erase(0, text.size());
  return static_cast<bool>(to_->write(clean.data(), static_cast<std::streamsize>(clean.size())));
}

bool CleanBuffer::Put(std::string_view text) {
  return Pass(0) && to_->write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::streamsize CleanBuffer::xsputn(const char* text, std::streamsize bytes) {
  text_.append(text, static_cast<size_t>(bytes));
  return Pass(CutCharacterBytes(text_)) ? bytes : 0;
}

CleanBuffer::int_type CleanBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char byte = traits_type::to_char_type(c);
  return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
}

int CleanBuffer::sync() { return Pass(0) && to_->flush() ? 0 : -1; }

std::ostream& operator<<(std::ostream& out, Draw draw) {
  PutCode(out, CodeOf(draw));
  return out;
}

std::ostream& operator<<(std::ostream& out, const Coloured& coloured) {
  std::string_view text = coloured.text;
  while (!text.empty()) {
    if (const size_t bytes = ColourBytes(text); bytes > 0) {
      PutCode(out, text.substr(0, bytes));
      text.remove_prefix(bytes);
      continue;
    }
    const size_t end = std::min(text.find("\033[", 1), text.size());
    out << text.substr(0, end);
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace coxswain::cli
