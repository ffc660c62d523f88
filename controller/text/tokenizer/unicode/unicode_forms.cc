#include "controller/text/tokenizer/unicode/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace coxswain::data {
namespace {

utf8proc_option_t FormOptions(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::kD:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case UnicodeForm::kKC:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case UnicodeForm::kKD:
      break;
  }
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
}

}  // namespace

std::string_view NormalizeUnicode(UnicodeForm form, std::string_view text, std::string* storage) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; })) return text;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, FormOptions(form));
  if (size < 0) throw std::bad_alloc();  // the only failure for valid UTF-8
  storage->assign(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
  return *storage;
}

}  // namespace coxswain::data
